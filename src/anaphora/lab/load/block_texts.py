"""A text for every block id of a trace: equal ids have equal texts, different ids part at once."""

import random
from collections.abc import Sequence
from functools import lru_cache

_KEPT_BLOCKS = 4096


class BlockTexts:
    """Texts as places in a list of ``num_words`` words, each word one token.

    A block begins with its id, written in words as digits, lowest first: neighbours in number, which siblings in a
    trace often are, part at the first word. What follows is drawn from the seed and the id, and so is
    the meaning of every digit: another seed shares no texts with this one.
    """

    def __init__(self, seed: str, num_words: int, block_size: int) -> None:
        self._seed = seed
        self._block_size = block_size
        self._digits = random.Random(f"{seed}/digits").sample(range(num_words), num_words)
        self.block = lru_cache(_KEPT_BLOCKS)(self._make)

    def prompt(self, block_ids: Sequence[int], num_tokens: int) -> list[int]:
        """The words of a prompt of ``num_tokens`` tokens; its last block may be a partial one."""
        places: list[int] = []
        for block_id in block_ids:
            places += self.block(block_id)
        return places[:num_tokens]

    def nonce(self, family: str, num_tokens: int) -> list[int]:
        """Words that only requests of the same family have."""
        return random.Random(family).choices(self._digits, k=num_tokens)

    def _make(self, block_id: int) -> tuple[int, ...]:
        places: list[int] = []
        rest = block_id
        while rest or not places:
            rest, digit = divmod(rest, len(self._digits))
            places.append(self._digits[digit])
        missing = max(0, self._block_size - len(places))
        places += random.Random(f"{self._seed}/{block_id}").choices(self._digits, k=missing)
        return tuple(places[: self._block_size])
