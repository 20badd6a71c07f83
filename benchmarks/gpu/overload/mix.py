"""What is asked: prompts of mixed lengths, half of them with one of a few beginnings in common."""

import random
from dataclasses import replace

from benchmarks.gpu.overload.client import Ask

NUM_PREFIXES = 8
NUM_REFERENCES = 6
REFERENCE_TOKENS = 12
REFERENCE_SHARE = 0.2
"""So many of a load's questions are known ones."""
LEAVING_SHARE = 0.5
_FIRST_TOKEN, _LAST_TOKEN = 10, 100_000


class Mix:
    """Questions as token ids; the same seed, the same questions. Lengths are in tokens."""

    def __init__(
        self, vocab_size: int, *, longest_prompt: int, longest_output: int, leaves_within_s: float, seed: int
    ) -> None:
        self._tokens = range(_FIRST_TOKEN, min(vocab_size, _LAST_TOKEN))
        self._longest_prompt = longest_prompt
        self._longest_output = longest_output
        self._leaves_within_s = leaves_within_s
        self._random = random.Random(seed)
        self._prefixes = [self._draw(self._length(longest_prompt // 2)) for _ in range(NUM_PREFIXES)]
        self.references = [
            Ask(prompt=self._prompt(is_shared=number % 2 == 0), max_tokens=REFERENCE_TOKENS, reference=number)
            for number in range(NUM_REFERENCES)
        ]

    def load(self, num_requests: int, *, some_leave: bool) -> list[Ask]:
        """Questions to be asked at once; if ``some_leave``, half of the clients do, at random moments."""
        asks = [self._any() for _ in range(num_requests)]
        if not some_leave:
            return asks
        leaving = set(self._random.sample(range(num_requests), round(LEAVING_SHARE * num_requests)))
        return [self._leaving(ask) if index in leaving else ask for index, ask in enumerate(asks)]

    def crowd(self, num_requests: int) -> list[Ask]:
        """Questions with answers half as long, where they are not known."""
        asks = self.load(num_requests, some_leave=False)
        return [ask if ask.reference is not None else replace(ask, max_tokens=-(-ask.max_tokens // 2)) for ask in asks]

    def long(self, num_requests: int, num_tokens: int, starts_after_s: float = 0.0) -> list[Ask]:
        """Prompts of so many tokens, with few tokens to answer."""
        return [
            Ask(prompt=self._draw(num_tokens), max_tokens=4, starts_after_s=starts_after_s) for _ in range(num_requests)
        ]

    def decoding(self, num_requests: int) -> list[Ask]:
        """Short prompts with the longest answers."""
        return [Ask(prompt=self._draw(8), max_tokens=self._longest_output) for _ in range(num_requests)]

    def _any(self) -> Ask:
        if self._random.random() < REFERENCE_SHARE:
            return self._random.choice(self.references)
        prompt = self._prompt(is_shared=self._random.random() < 0.5)
        return Ask(prompt=prompt, max_tokens=self._length(self._longest_output))

    def _leaving(self, ask: Ask) -> Ask:
        if self._random.random() < 0.5:
            return replace(ask, leaves_after_s=self._leaves_within_s * self._random.random() ** 2)
        return replace(ask, leaves_after_events=self._random.randint(1, max(1, ask.max_tokens // 2)))

    def _prompt(self, *, is_shared: bool) -> tuple[int, ...]:
        if not is_shared:
            return self._draw(self._length(self._longest_prompt))
        return self._random.choice(self._prefixes) + self._draw(self._length(self._longest_prompt // 8))

    def _length(self, longest: int) -> int:
        return self._random.randint(max(1, longest // 8), max(1, longest))

    def _draw(self, num_tokens: int) -> tuple[int, ...]:
        return tuple(self._random.choices(self._tokens, k=num_tokens))
