"""From options and a target to trials in their order of sending, with what should come of each."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.arms import ArmsProof, Mechanism, Round, Trial, in_blocks, interleaved, prove_salt
from anaphora.lab.experiments.base import Planner
from anaphora.lab.options import BY_FLAG, BenchOptions
from anaphora.lab.prediction import block_size_of, expect
from anaphora.lab.refills import with_restarts
from anaphora.lab.resets import prove_reset, with_resets
from anaphora.lab.runner import Expected
from anaphora.lab.targets.base import ChatRequest, PromptTokenizer, Target
from anaphora.lab.tool_support import without_refused_tools
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.sizing import token_counter
from anaphora.lab.workloads.texts import texts_of
from anaphora.traces.records import Arm

ARMS: tuple[Arm, ...] = ("on", "off")
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
    proof_id: str | None = None,
    asked_before: Sequence[ChatRequest] = (),
) -> Plan:
    """Find the arms that the target allows, size the prompts, order the trials, predict their hits.

    ``proof_id``: stands in the proof's texts for a ``run_id`` whose texts the server may know. ``asked_before``: what
    the run has sent already.
    """
    texts = texts_of(options.lang)
    proof = await prove_arms(options, target, proof_id or run_id)
    note(f"off means {proof.mechanism.off_means}" + (f": {proof.seen}" if proof.seen else ""))
    prompts = PromptFactory(run_id, proof.mechanism, texts)

    def sample(num_units: int) -> str:
        return texts.system_prompt(prompts.edition(f"sample/{num_units}"), num_units)

    count, exact = await token_counter(target, tokenizer, sample)
    cache = await target.cache_settings()
    planner = Planner(prompts, count, max_model_len, note, block_size_of(cache))
    rounds = [await settings.rounds(planner) for settings in options.experiments]
    rounds, asked_for_tools = await without_refused_tools(rounds, target, run_id, note)
    trials = [trial for own in rounds for trial in _ordered(own, proof.mechanism, options.seed)]
    warmups = {arm: await _warmups(planner, arm) for arm in ARMS}
    first = warmups["on"]
    if proof.mechanism is Mechanism.FLAG:
        first = [*first, *warmups["off"]]
    if proof.mechanism is Mechanism.RESTART:
        trials = with_restarts(trials, warmups)
    earlier = [_warmup("on", request) for request in (*asked_before, *proof.asked, *asked_for_tools)]
    sent = [*earlier, *first, *trials]
    expected = await expect(sent, tokenizer, mechanism=proof.mechanism, cache=cache)
    return Plan(
        run_id=run_id,
        proof=proof,
        exact_lengths=exact,
        cache_settings=cache,
        warmups=first,
        trials=trials,
        expected_warmups=expected[len(earlier) : -len(trials)],
        expected=expected[-len(trials) :],
    )


async def prove_arms(options: BenchOptions, target: Target, run_id: str) -> ArmsProof:
    """The arms as wished, or the best that the target is proved to allow."""
    if options.arms in (*BY_FLAG, "nonce"):
        return ArmsProof(Mechanism(options.arms), "")
    prompts = PromptFactory(run_id, Mechanism.SALT, texts_of(options.lang))
    if options.arms == "reset":
        return await prove_reset(target, _filler(prompts))
    proof = await prove_salt(target, _filler(prompts))
    if options.arms == "salt" and proof.mechanism is not Mechanism.SALT:
        raise TargetError(f"--arms salt cannot be used: {proof.seen}; use --arms nonce")
    return proof


def _filler(prompts: PromptFactory) -> ChatRequest:
    """A prompt of some hundred tokens that is used for the proof alone."""
    return prompts.request(
        family="salt", arm="on", number=0, num_units=_FILLER_UNITS, question=prompts.texts.question, max_tokens=1
    )


def _ordered(rounds: list[Round], mechanism: Mechanism, seed: int) -> list[Trial]:
    if mechanism.is_by_flag:
        return in_blocks(rounds)
    trials = interleaved(rounds, random.Random(seed))
    return with_resets(trials) if mechanism is Mechanism.RESET else trials


async def _warmups(planner: Planner, arm: Arm) -> list[Trial]:
    """A short and a longer prompt for an arm's server; their texts are used nowhere else."""
    prompts, trials = planner.prompts, []
    for index, num_units in enumerate(_WARMUP_UNITS, 1):
        request = prompts.request(
            family=f"warmup/{arm}/{index}",
            arm=arm,
            number=index,
            num_units=await _fitting(planner, num_units),
            question=prompts.texts.question,
            max_tokens=_WARMUP_OUTPUT_TOKENS,
        )
        trials.append(_warmup(arm, request, index))
    return trials


async def _fitting(planner: Planner, num_units: int) -> int:
    """So many units, or fewer where the context is small: what is refused warms nothing, and leaves no blocks, though
    it is predicted to."""
    room, edition = planner.longest_prefix(_WARMUP_OUTPUT_TOKENS), planner.prompts.sample_edition("size")
    if room is None or await planner.count(planner.prompts.texts.system_prompt(edition, num_units)) <= room:
        return num_units
    return await planner.units(room)


def _warmup(arm: Arm, request: ChatRequest, index: int = 0) -> Trial:
    return Trial(experiment="warmup", arm=arm, phase="warmup", group=0, index=index, label="warm-up", request=request)
