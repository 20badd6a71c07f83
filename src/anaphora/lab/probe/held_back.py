"""How much of a wholly cached prompt is computed all the same?

At least one token must be, for its logits. In whole blocks, that is a block where the prompt ends at a block's
border; some servers hold back one block more.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anaphora.lab.probe.asking import Asker
from anaphora.lab.probe.finding import Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis

NAME = "held_back"
QUESTION = "What of a repeated prompt is computed all the same?"
_TRIES = 3
"""How often a length is corrected until the prompt ends where it should."""
MAX_REQUESTS = 3 * (_TRIES + 1)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A prompt of so many tokens was repeated whole; so many of them hit."""

    num_prompt_tokens: int
    num_cached_tokens: int


_RULES: Mapping[str, Callable[[int, int], int]] = {
    "nothing": lambda tokens, block: tokens // block * block,
    "the last token, with its block": lambda tokens, block: (tokens - 1) // block * block,
    "the last token's block and one more": lambda tokens, block: max(0, (tokens - 1) // block - 1) * block,
}


def rules_that_fit(repeated: Sequence[Repeated], block_size: int) -> list[str]:
    """Which rules give every count."""
    return [
        name
        for name, rule in _RULES.items()
        if all(rule(one.num_prompt_tokens, block_size) == one.num_cached_tokens for one in repeated)
    ]


async def probe_held_back(
    asker: Asker, prompts: WordPrompts, basis: Basis, *, block_size: int | None, minimum: int | None
) -> Finding:
    """Whole repetitions of prompts that end at a block's border, one token after it, and in the middle."""
    if block_size is None:
        return unknown(NAME, QUESTION, "the block size is not known")
    least = max(2 * block_size, 2 * (minimum or 0), 32)
    repeated = []
    for number, rest in enumerate(sorted({0, 1 % block_size, block_size // 2})):
        one = await _repeat(asker, prompts, f"held/{number}", least, rest, block_size)
        if one is None:
            return unknown(NAME, QUESTION, "the server does not tell how many tokens a prompt has")
        repeated.append(one)
    return _finding(repeated, block_size)


async def _repeat(
    asker: Asker, prompts: WordPrompts, name: str, least: int, rest: int, block_size: int
) -> Repeated | None:
    """A prompt of at least so many tokens, which leave ``rest`` when they are divided into blocks, if words allow
    it."""
    num_words = least
    for attempt in range(_TRIES):
        prompt = prompts.fresh(f"{name}/{attempt}", num_words)
        tokens = (await asker.ask(prompt)).num_prompt_tokens
        if tokens is None:
            return None
        missing = (rest - tokens) % block_size
        if not missing or attempt == _TRIES - 1:
            break
        num_words += missing
    again = await asker.ask(prompt)
    return None if again.num_prompt_tokens is None else Repeated(again.num_prompt_tokens, again.num_cached_tokens or 0)


def _finding(repeated: Sequence[Repeated], block_size: int) -> Finding:
    seen = "; ".join(f"of {one.num_prompt_tokens:,} tokens {one.num_cached_tokens:,} hit" for one in repeated)
    fitting = rules_that_fit(repeated, block_size)
    if len(fitting) != 1:
        why = "no rule gives that" if not fitting else f"{' or '.join(fitting)} would both give that"
        return unknown(NAME, QUESTION, f"{seen}: {why}")
    value = "the last token" if block_size == 1 and fitting[0].startswith("the last token,") else fitting[0]
    return Finding(name=NAME, question=QUESTION, value=value, confidence=Confidence.COUNTED, evidence=seen)
