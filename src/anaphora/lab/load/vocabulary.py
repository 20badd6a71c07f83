"""Words of which every one is exactly one token of the target, so that texts can be made to measure."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from anaphora.lab.workloads.texts import EDITION_WORDS

CountText = Callable[[str], Awaitable[int | None]]

MIN_WORDS = 16


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """``words`` come with their leading space. ``exact``: the target's tokenizer was asked, and each is one token
    wherever it stands."""

    words: tuple[str, ...]
    exact: bool


async def find_vocabulary(count_text: CountText) -> Vocabulary:
    """The words that the target's tokenizer takes as one token each; all of ours, as a guess, if it cannot be asked
    or splits nearly all of them."""
    words = tuple(f" {word}" for word in EDITION_WORDS)
    if await count_text("".join(words)) is None:
        return Vocabulary(words, exact=False)
    whole = tuple(await _whole_words(words, count_text))
    return Vocabulary(whole, exact=True) if len(whole) >= MIN_WORDS else Vocabulary(words, exact=False)


async def _whole_words(words: Sequence[str], count_text: CountText) -> list[str]:
    """Those of one token, found by halving: most vocabularies have nearly all of them."""
    if await count_text("".join(words)) == len(words):
        return list(words)
    if len(words) == 1:
        return []
    middle = len(words) // 2
    return await _whole_words(words[:middle], count_text) + await _whole_words(words[middle:], count_text)
