"""Random schedules for a KV cache manager, and what it did with one. Plain Python: other interpreters run it too.

A schedule is a list of steps, a step a list of operations, as JSON has them::

    ["admit", name, salt, tokens, chunk]   look the prompt up, then make room for the first ``chunk`` tokens not cached
    ["grow", name, chunk, token]           the next ``chunk`` tokens of a prompt, or one more token behind its end
    ["free", name]
    ["reset"]

Whoever has no room is dropped: a new request is turned away, a running one is preempted for good.
"""

import random
from typing import Any, NamedTuple, Protocol

BLOCK_SIZE = 16
Operation = list[Any]
Schedule = dict[str, Any]
"""``seed``, ``num_blocks``, ``steps``."""

SALTS = ("", "", "a", "b")
POOL_SIZES = (12, 16, 24, 40, 80)
NEAR_BORDERS = (-1, 0, 0, 1, 7)
LONG_PROMPT = 128
CHUNKS = (1_000, 1_000, 16, 40)


class ScheduledCache(Protocol):
    """A KV cache manager as a schedule drives it. A request that is turned away or freed is forgotten."""

    def lookup(self, name: str, salt: str, tokens: list[int]) -> int:
        """Begin a request: its cached tokens."""

    def admit(self, name: str, num_tokens: int) -> bool:
        """Room for its first ``num_tokens`` tokens, the cached ones included."""

    def append(self, name: str, token: int) -> None:
        """A token was generated."""

    def allocate(self, name: str, num_tokens: int) -> bool:
        """Room for its first ``num_tokens`` tokens."""

    def commit(self, name: str, num_tokens: int) -> None:
        """Its first ``num_tokens`` tokens are computed."""

    def free(self, name: str) -> None:
        """The request is over."""

    def reset(self) -> bool:
        """Forget everything, if nobody runs."""

    def num_duplicates(self) -> int:
        """Blocks that hold what another block holds too."""


class Outcome(NamedTuple):
    """Of one operation. ``cached``: tokens found by an ``admit``. ``done``: whether there was room (``None``: no such
    request). ``duplicates``: how many blocks the cache keeps twice after the step."""

    cached: int | None
    done: bool | None
    duplicates: int


def make_schedule(seed: int, num_steps: int = 40) -> Schedule:
    """Prompts that share beginnings and end near block borders; concurrent twins; answers; a small pool.

    In two schedules of five every prompt has an ending of its own and is computed in one piece.
    """
    rng = random.Random(seed)
    has_twins = rng.random() < 0.6
    writer = _Writer(rng, has_twins)
    return {
        "seed": seed,
        "num_blocks": rng.choice(POOL_SIZES),
        "steps": [writer.step() for _ in range(num_steps)],
    }


class _Writer:
    """Writes steps; knows which requests it has begun and not ended, though some of them may have been dropped."""

    def __init__(self, rng: random.Random, has_twins: bool) -> None:
        self._rng = rng
        self._has_twins = has_twins
        self._num_requests = 0
        self._open: list[str] = []
        self._prompts: list[list[int]] = []
        self._beginnings = [[rng.randrange(100) for _ in range(16 * rng.randint(1, 6))] for _ in range(4)]

    def step(self) -> list[Operation]:
        """The order of a scheduler: who leaves, who goes on, who comes."""
        rng = self._rng
        if rng.random() < 0.04:
            closing = [["free", name] for name in self._open]
            self._open.clear()
            return [*closing, ["reset"]]
        operations: list[Operation] = []
        for name in list(self._open):
            draw = rng.random()
            if draw < 0.25:
                self._open.remove(name)
                operations.append(["free", name])
            elif draw < 0.95:
                operations.append(["grow", name, self._chunk(), self._answer_token()])
        for _ in range(rng.choice((0, 1, 1, 2))):
            operations += self._arrivals()
        return operations

    def _arrivals(self) -> list[Operation]:
        salt, prompt = self._rng.choice(SALTS), self._prompt()
        num_twins = 2 if self._has_twins and self._rng.random() < 0.25 else 1
        return [["admit", self._name(), salt, list(prompt), self._chunk()] for _ in range(num_twins)]

    def _name(self) -> str:
        name = f"r{self._num_requests}"
        self._num_requests += 1
        self._open.append(name)
        return name

    def _prompt(self) -> list[int]:
        rng = self._rng
        if self._has_twins and self._prompts and rng.random() < 0.35:
            return rng.choice(self._prompts)
        beginning = self._beginning()
        num_tokens = max(len(beginning) + 1, 16 * rng.randint(1, 8) + rng.choice(NEAR_BORDERS))
        own = [1_000 + self._num_requests if not self._has_twins else rng.randrange(2)]
        prompt = beginning + own * (num_tokens - len(beginning))
        self._prompts.append(prompt)
        return prompt

    def _beginning(self) -> list[int]:
        """A system prompt or an earlier prompt, whole or cut off anywhere; the latter while it is not long."""
        rng = self._rng
        beginning = rng.choice(self._beginnings)
        if self._prompts and rng.random() < 0.4:
            earlier = rng.choice(self._prompts[-6:])
            beginning = earlier if len(earlier) < LONG_PROMPT else beginning
        return beginning if rng.random() < 0.6 else beginning[: rng.randint(0, len(beginning))]

    def _chunk(self) -> int:
        return self._rng.choice(CHUNKS) if self._has_twins else CHUNKS[0]

    def _answer_token(self) -> int:
        return self._rng.randrange(2) if self._has_twins else self._rng.randrange(2_000, 1_000_000)


class _Request:
    def __init__(self, num_tokens: int, num_scheduled: int) -> None:
        self.num_tokens = num_tokens
        self.num_computed = 0
        self.num_scheduled = num_scheduled


class Player:
    """Plays schedules on one cache."""

    def __init__(self, cache: ScheduledCache) -> None:
        self._cache = cache
        self._running: dict[str, _Request] = {}

    def play(self, schedule: Schedule) -> list[Outcome]:
        """One outcome for each operation, in order."""
        outcomes: list[Outcome] = []
        for step in schedule["steps"]:
            results = [getattr(self, f"_{kind}")(*arguments) for kind, *arguments in step]
            self._take_in()
            num_duplicates = self._cache.num_duplicates()
            outcomes += [Outcome(cached, done, num_duplicates) for cached, done in results]
        return outcomes

    def _take_in(self) -> None:
        for name, request in self._running.items():
            if request.num_scheduled > request.num_computed:
                request.num_computed = request.num_scheduled
                self._cache.commit(name, request.num_computed)

    def _admit(self, name: str, salt: str, tokens: list[int], chunk: int) -> tuple[int, bool]:
        cached = self._cache.lookup(name, salt, list(tokens))
        num_tokens = min(cached + chunk, len(tokens))
        done = self._cache.admit(name, num_tokens)
        if done:
            self._running[name] = _Request(len(tokens), num_tokens)
        return cached, done

    def _grow(self, name: str, chunk: int, token: int) -> tuple[None, bool | None]:
        request = self._running.get(name)
        if request is None:
            return None, None
        if request.num_computed == request.num_tokens:
            self._cache.append(name, token)
            request.num_tokens += 1
        num_tokens = min(request.num_computed + chunk, request.num_tokens)
        done = self._cache.allocate(name, num_tokens)
        if done:
            request.num_scheduled = num_tokens
        else:
            self._free(name)
        return None, done

    def _free(self, name: str) -> tuple[None, bool | None]:
        if self._running.pop(name, None) is None:
            return None, None
        self._cache.free(name)
        return None, True

    def _reset(self) -> tuple[None, bool]:
        return None, self._cache.reset()
