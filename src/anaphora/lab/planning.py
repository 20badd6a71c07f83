"""From options and a target to trials in their order of sending, with what should come of each."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.arms import ArmsProof, Mechanism, Round, Trial, in_blocks, interleaved, prove_salt
from anaphora.lab.experiments import gradient, switch
from anaphora.lab.options import BenchOptions
from anaphora.lab.prediction import expect
from anaphora.lab.runner import Expected
from anaphora.lab.targets.base import ChatRequest, PromptTokenizer, Target
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.sizing import CountTokens, largest_fit, token_counter
from anaphora.lab.workloads.texts import Texts, texts_of
from anaphora.traces.records import Arm

_TEMPLATE_TOKENS = 96
"""Room for the chat template and the question beside the system prompt."""
_FILLER_UNITS = 160
_WARMUP_UNITS = (48, 320)
_WARMUP_OUTPUT_TOKENS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """``warmups`` first, then ``trials``; what is known of each beforehand stands at the same place of
    ``expected_warmups`` and ``expected``. All that the server sees is predicted in one go: a trial may share
    its first block with a warm-up by chance, in a small vocabulary above all."""

    run_id: str
    proof: ArmsProof
    exact_lengths: bool
    cache_settings: Mapping[str, Any]
    warmups: list[Trial]
    trials: list[Trial]
    expected_warmups: list[Expected]
    expected: list[Expected]


async def make_plan(
    options: BenchOptions,
    target: Target,
    tokenizer: PromptTokenizer,
    *,
    run_id: str,
    max_model_len: int | None,
    note: Callable[[str], None],
) -> Plan:
    """Find the arms that the target allows, size the prompts, order the trials, predict their hits."""
    texts = texts_of(options.lang)
    proof = await _prove(options, target, PromptFactory(run_id, Mechanism.SALT, texts))
    note(f"off means {proof.mechanism.off_means}" + (f": {proof.seen}" if proof.seen else ""))
    prompts = PromptFactory(run_id, proof.mechanism, texts)

    def sample(num_units: int) -> str:
        return texts.system_prompt(prompts.edition(f"sample/{num_units}"), num_units)

    count, exact = await token_counter(target, tokenizer, sample)
    trials = await _trials(options, prompts, count, max_model_len, note)
    cache = await target.cache_settings()
    warmups = _warmups(prompts)
    sent = [*(_warmup("on", request) for request in proof.asked), *warmups, *trials]
    expected = await expect(sent, tokenizer, mechanism=proof.mechanism, cache=cache)
    return Plan(
        run_id=run_id,
        proof=proof,
        exact_lengths=exact,
        cache_settings=cache,
        warmups=warmups,
        trials=trials,
        expected_warmups=expected[len(proof.asked) : -len(trials)],
        expected=expected[-len(trials) :],
    )


async def _prove(options: BenchOptions, target: Target, prompts: PromptFactory) -> ArmsProof:
    if options.arms in ("flag", "nonce"):
        return ArmsProof(Mechanism(options.arms), "")
    filler = prompts.request(
        family="salt", arm="on", number=0, num_units=_FILLER_UNITS, question=prompts.texts.question, max_tokens=1
    )
    proof = await prove_salt(target, filler)
    if options.arms == "salt" and proof.mechanism is not Mechanism.SALT:
        raise TargetError(f"--arms salt cannot be used: {proof.seen}; use --arms nonce")
    return proof


async def _trials(
    options: BenchOptions,
    prompts: PromptFactory,
    count: CountTokens,
    max_model_len: int | None,
    note: Callable[[str], None],
) -> list[Trial]:
    plan: list[list[Round]] = []
    if switch.NAME in options.experiments:
        plan.append(await _switch_rounds(options, prompts, count, max_model_len))
    if gradient.NAME in options.experiments:
        lengths = _fitting_lengths(options.lengths, max_model_len, note)
        units = {length: await _units(prompts.texts, length, count) for length in lengths}
        plan.append(gradient.rounds(prompts, units_by_length=units, repeats=options.repeats))
    return [trial for rounds in plan for trial in _ordered(rounds, prompts.mechanism, options.seed)]


async def _switch_rounds(
    options: BenchOptions, prompts: PromptFactory, count: CountTokens, max_model_len: int | None
) -> list[Round]:
    needed = options.prefix_tokens + _TEMPLATE_TOKENS + options.output_tokens
    if max_model_len is not None and needed > max_model_len:
        raise ConfigError(
            f"a system prompt of {options.prefix_tokens} tokens does not fit the context of {max_model_len}: "
            "give a smaller --prefix-tokens"
        )
    return switch.rounds(
        prompts,
        num_units=await _units(prompts.texts, options.prefix_tokens, count),
        prefix_tokens=options.prefix_tokens,
        num_questions=options.num_questions,
        output_tokens=options.output_tokens,
    )


def _fitting_lengths(lengths: Sequence[int], max_model_len: int | None, note: Callable[[str], None]) -> list[int]:
    """The lengths that leave room for the template and the question, ascending; the others are left out aloud."""
    fitting = [n for n in sorted(lengths) if max_model_len is None or n + _TEMPLATE_TOKENS < max_model_len]
    for length in sorted(set(lengths) - set(fitting)):
        note(f"a prefix of {length} tokens does not fit the context of {max_model_len}: left out")
    if not fitting:
        raise ConfigError(f"no prefix length fits the context of {max_model_len}: give smaller --lengths")
    return fitting


async def _units(texts: Texts, num_tokens: int, count: CountTokens) -> int:
    sample_edition = PromptFactory("", Mechanism.SALT, texts).edition("size")
    return await largest_fit(lambda n: texts.system_prompt(sample_edition, n), num_tokens, count)


def _ordered(rounds: list[Round], mechanism: Mechanism, seed: int) -> list[Trial]:
    return in_blocks(rounds) if mechanism is Mechanism.FLAG else interleaved(rounds, random.Random(seed))


def _warmups(prompts: PromptFactory) -> list[Trial]:
    """A short and a longer prompt for every server; their texts are used nowhere else."""
    arms: tuple[Arm, ...] = ("on", "off") if prompts.mechanism is Mechanism.FLAG else ("on",)

    def request(arm: Arm, index: int, num_units: int) -> ChatRequest:
        return prompts.request(
            family=f"warmup/{arm}/{index}",
            arm=arm,
            number=index,
            num_units=num_units,
            question=prompts.texts.question,
            max_tokens=_WARMUP_OUTPUT_TOKENS,
        )

    return [_warmup(arm, request(arm, i, units), i) for arm in arms for i, units in enumerate(_WARMUP_UNITS, 1)]


def _warmup(arm: Arm, request: ChatRequest, index: int = 0) -> Trial:
    return Trial(experiment="warmup", arm=arm, phase="warmup", group=0, index=index, label="warm-up", request=request)
