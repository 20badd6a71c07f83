"""Block size and minimum of a server that tells no counts: sends the prompts for :mod:`anaphora.lab.probe.by_time`."""

from anaphora.lab.probe import block_size, minimum
from anaphora.lab.probe.asking import Asker, LimitReachedError
from anaphora.lab.probe.by_time import Chosen, StepsByTime, Timed, steps_by_time
from anaphora.lab.probe.finding import Bound, Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompt, WordPrompts
from anaphora.lab.probe.reuse import Basis
from anaphora.lab.targets.base import PromptTokenizer

NUM_BASES = 2


async def probe_steps_by_time(
    asker: Asker, prompts: WordPrompts, basis: Basis, tokenizer: PromptTokenizer
) -> tuple[Finding, Finding]:
    """The findings on block size and minimum."""
    if basis.judge is None:
        return _unknown("cached tokens are not told, and new and repeated prompts take about as long")
    try:
        timed = await _time(asker, prompts, basis, tokenizer)
    except LimitReachedError:
        return _unknown("--max-tokens is used up")
    if not timed:
        return _unknown(
            "cached tokens are not told, and without the server's tokenizer it is not known what prompts share: name "
            "it with --tokenizer MODEL"
        )
    return _findings(steps_by_time(timed), len(timed))


async def _time(asker: Asker, prompts: WordPrompts, basis: Basis, tokenizer: PromptTokenizer) -> list[Timed]:
    """Prompts that part at many places; empty if there is no tokenizer."""
    timed: list[Timed] = []
    for number in range(NUM_BASES):
        base = prompts.fresh(f"steps/{number}", basis.num_words)
        await asker.ask(base)
        for num_shared in block_size.places(f"{prompts.run_id}/{number}", basis.num_words):
            prompt = prompts.parting(base, f"steps/{number}/{num_shared}", num_shared)
            lengths = await _lengths(tokenizer, base, prompt)
            if lengths is None:
                return []
            timed.append(Timed(*lengths, (await asker.ask(prompt)).e2e_ms))
    return timed


async def _lengths(tokenizer: PromptTokenizer, base: WordPrompt, prompt: WordPrompt) -> tuple[int, int] | None:
    """Tokens of the prompt, and how many of them it shares with the base."""
    one, other = await tokenizer.chat_token_ids(base.messages), await tokenizer.chat_token_ids(prompt.messages)
    if one is None or other is None:
        return None
    shared = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return len(other), shared


def _unknown(why: str) -> tuple[Finding, Finding]:
    return unknown(block_size.NAME, block_size.QUESTION, why), unknown(minimum.NAME, minimum.QUESTION, why)


def _findings(found: StepsByTime, num_timed: int) -> tuple[Finding, Finding]:
    seen = f"the times of {num_timed} prompts that parted at different places"
    undecided = f"{seen} do not choose between the sizes"
    block, least = found.block_size, found.minimum
    if block is None:
        return _unknown(undecided)
    block_finding = _finding(block_size.NAME, block_size.QUESTION, block, seen)
    if least is None or least.is_limit:
        return block_finding, unknown(minimum.NAME, minimum.QUESTION, undecided)
    smallest = Chosen(max(least.value, block.value), least.error_chance + block.error_chance, block.is_limit)
    return block_finding, _finding(minimum.NAME, minimum.QUESTION, smallest, seen)


def _finding(name: str, question: str, chosen: Chosen, seen: str) -> Finding:
    return Finding(
        name=name,
        question=question,
        value=chosen.value,
        unit="tokens",
        bound=Bound.AT_MOST if chosen.is_limit else Bound.EXACT,
        confidence=Confidence.LIKELY,
        error_chance=chosen.error_chance,
        evidence=f"{seen} fit {'no larger steps' if chosen.is_limit else 'these steps and no others'}",
    )
