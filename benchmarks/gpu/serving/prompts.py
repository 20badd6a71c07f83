"""Texts of an exact number of tokens: seeded words that are one token each."""

import random
import re
from pathlib import Path

from tokenizers import Tokenizer

QUESTION_TOKENS = 12


class Texts:
    """Makes texts by a tokenizer."""

    def __init__(self, folder: Path) -> None:
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        words = sorted(word[1:] for word in self._tokenizer.get_vocab() if re.fullmatch("\u0120[a-z]{3,8}", word))
        random.Random(7).shuffle(words)
        self._words = [word for word in words[:6000] if self.count(" " + word) == 1]

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def text(self, num_tokens: int, seed: str) -> str:
        """A text of exactly so many tokens; texts of different seeds part within the first few."""
        rng = random.Random(f"{num_tokens} {seed}")
        words = rng.choices(self._words, k=num_tokens)
        while True:
            missing = num_tokens - self.count(" ".join(words))
            if missing == 0:
                return " ".join(words)
            words = words[:missing] if missing < 0 else words + rng.choices(self._words, k=missing)

    def question(self, seed: str) -> str:
        """A text of ``QUESTION_TOKENS`` tokens."""
        return self.text(QUESTION_TOKENS, f"question {seed}")
