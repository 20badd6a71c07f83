"""Chats at random times: who asks what, and when. Everything follows from a seed."""

import random
from dataclasses import dataclass

from benchmarks.cpu.prompts import QUESTIONS, system_prompt


@dataclass(frozen=True, slots=True)
class Load:
    """``rate``: requests a second, their gaps exponentially distributed. ``cached``: no salt of each request's own.

    ``is_even``: all gaps are the same.
    """

    name: str
    rate: float
    num_requests: int
    cached: bool = True
    seed: int = 0
    is_even: bool = False


@dataclass(frozen=True, slots=True)
class Chat:
    """One request of a load."""

    at_s: float
    system: str
    question: str
    max_tokens: int
    salt: str


SYSTEM_WORDS = (200, 300, 400, 500, 600, 700)
"""Of the system prompts; the first are asked most."""
MAX_TOKENS = (4, 8, 16, 32)


def chats(load: Load) -> list[Chat]:
    """The load's requests in the order of their arrival."""
    chance = random.Random(f"{load.name}-{load.seed}")
    systems = [system_prompt(f"{load.name}-{load.seed}-{words}", words) for words in SYSTEM_WORDS]
    weights = [1 / (rank + 1) for rank in range(len(systems))]
    at_s, made = 0.0, []
    for number in range(load.num_requests):
        made.append(
            Chat(
                at_s,
                chance.choices(systems, weights)[0],
                f"{chance.choice(QUESTIONS)} ({number})",
                chance.choice(MAX_TOKENS),
                "" if load.cached else f"{load.name}-{load.seed}-{number}",
            )
        )
        at_s += 1 / load.rate if load.is_even else chance.expovariate(load.rate)
    return made
