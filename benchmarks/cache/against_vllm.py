"""Our cache core and vLLM's ``KVCacheManager`` on the same random schedules: cached tokens of every request.

    python -m benchmarks.cache.against_vllm --python vllm/bin/python --out benchmarks/results/cache/against_vllm.json

``--python``: the interpreter of an environment with vLLM (``benchmarks/README.md`` sets one up; no GPU and no model are
needed). Both have blocks of 16 tokens, evict the least recently used, and get equal pools.

vLLM keeps a block that was computed twice in two blocks; ours keeps one. Each difference is traced to that rule, by
two tests: vLLM must hold a duplicate before it; and two plain caches that differ in this rule alone
(:mod:`benchmarks.cache.plain_cache`) must do in each operation of the schedule what vLLM and ours did. A difference
that fails one of them is listed as untraced, and the exit code is 1.
"""

import argparse
import json
import platform
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.cache.plain_cache import KeepsDuplicates, StoresOnce
from benchmarks.cache.schedules import BLOCK_SIZE, Outcome, Player, Schedule, ScheduledCache, make_schedule

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

if TYPE_CHECKING:
    from anaphora.kvcache.match import Match

REPOSITORY = Path(__file__).parents[2]
LIMIT_S = 600


class OurCache:
    """A ``ScheduledCache``."""

    def __init__(self, num_blocks: int) -> None:
        self._manager = KVCacheManager(CacheConfig(num_blocks=num_blocks, block_size=BLOCK_SIZE, eviction_policy="lru"))
        self._tokens: dict[str, TokenBlocks] = {}
        self._match: Match | None = None
        self._step = 0

    def lookup(self, name: str, salt: str, tokens: list[int]) -> int:
        self._tokens[name] = TokenBlocks(tokens, BLOCK_SIZE)
        self._match = self._manager.match(Namespace(salt), self._tokens[name], step=self._step)
        return self._match.num_cached_tokens

    def admit(self, name: str, num_tokens: int) -> bool:
        assert self._match is not None
        there = self._manager.admit(RequestId(name), self._match, num_tokens, step=self._step) is not None
        if not there:
            del self._tokens[name]
        return there

    def append(self, name: str, token: int) -> None:
        self._tokens[name].append(token)

    def allocate(self, name: str, num_tokens: int) -> bool:
        return self._manager.allocate(RequestId(name), num_tokens, step=self._step) is not None

    def commit(self, name: str, num_tokens: int) -> None:
        self._manager.commit(RequestId(name), num_tokens)
        self._step += 1

    def free(self, name: str) -> None:
        self._manager.free(RequestId(name))
        del self._tokens[name]

    def reset(self) -> bool:
        return self._manager.reset()

    def num_duplicates(self) -> int:
        """None: that it keeps none is what its audit checks."""
        self._manager.check_integrity()
        return 0


@dataclass(frozen=True, slots=True)
class Played:
    """One schedule on all four caches."""

    schedule: Schedule
    ours: list[Outcome]
    vllm: list[Outcome]
    once: list[Outcome]
    twice: list[Outcome]

    @property
    def first_duplicate(self) -> int:
        """The operation in whose step vLLM first held a duplicate; the number of operations if it never did."""
        return next((i for i, outcome in enumerate(self.vllm) if outcome.duplicates), len(self.vllm))

    @property
    def follows_plain_caches(self) -> bool:
        """Whether the rule about duplicates explains all that both did."""
        return _done(self.ours) == _done(self.once) and self.vllm == self.twice

    @property
    def differences(self) -> list[int]:
        """Operations with another number of cached tokens, or another answer to the question whether there is room."""
        pairs = zip(_done(self.ours), _done(self.vllm), strict=True)
        return [number for number, (mine, theirs) in enumerate(pairs) if mine != theirs]

    @property
    def untraced(self) -> list[int]:
        """Differences that the rule about duplicates does not explain."""
        start = self.first_duplicate if self.follows_plain_caches else len(self.vllm)
        return [number for number in self.differences if number < start]


def _done(outcomes: Sequence[Outcome]) -> list[tuple[int | None, bool | None]]:
    return [(outcome.cached, outcome.done) for outcome in outcomes]


def play_here(make_cache: Callable[[int], ScheduledCache], schedules: Sequence[Schedule]) -> list[list[Outcome]]:
    """All schedules on caches of this interpreter."""
    return [Player(make_cache(schedule["num_blocks"])).play(schedule) for schedule in schedules]


def play_vllm(python: str, schedules: Sequence[Schedule]) -> tuple[str, list[list[Outcome]]]:
    """vLLM's version, and all schedules on its caches."""
    command = [python, "-m", "benchmarks.cache.vllm_cache"]
    text = json.dumps(schedules)
    done = subprocess.run(
        command, input=text, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S
    )
    answer = json.loads(done.stdout.splitlines()[-1])
    return answer["version"], [[Outcome(*outcome) for outcome in outcomes] for outcomes in answer["outcomes"]]


def summarise(played: Sequence[Played]) -> dict[str, Any]:
    """Counts over all schedules. Requests before vLLM's first duplicate are told from those behind it."""
    rows = {part: _Row() for part in ("no_duplicate_yet", "after_a_duplicate")}
    for one in played:
        for number, (mine, theirs) in enumerate(zip(one.ours, one.vllm, strict=True)):
            if mine.cached is not None and theirs.cached is not None:
                part = "no_duplicate_yet" if number < one.first_duplicate else "after_a_duplicate"
                rows[part].add(mine.cached, theirs.cached)
    return {
        "num_schedules": len(played),
        "num_operations": sum(len(one.vllm) for one in played),
        "num_schedules_without_duplicates": sum(one.first_duplicate == len(one.vllm) for one in played),
        "num_schedules_that_follow_the_plain_caches": sum(one.follows_plain_caches for one in played),
        "requests": {part: row.counts for part, row in rows.items()},
        "num_differing_operations": sum(len(one.differences) for one in played),
        "untraced": [{"seed": one.schedule["seed"], "operations": one.untraced} for one in played if one.untraced],
    }


class _Row:
    def __init__(self) -> None:
        names = ("requests", "equal", "ours_more", "vllm_more", "cached_tokens_ours", "cached_tokens_vllm")
        self.counts = dict.fromkeys(names, 0)

    def add(self, ours: int, vllm: int) -> None:
        self.counts["requests"] += 1
        self.counts["equal" if ours == vllm else "ours_more" if ours > vllm else "vllm_more"] += 1
        self.counts["cached_tokens_ours"] += ours
        self.counts["cached_tokens_vllm"] += vllm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", required=True, help="an interpreter with vLLM")
    parser.add_argument("--schedules", type=int, default=1000, help="how many; their seeds are 0, 1, 2 …")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    schedules = [make_schedule(seed) for seed in range(options.schedules)]
    version, theirs = play_vllm(options.python, schedules)
    others = [play_here(make, schedules) for make in (OurCache, StoresOnce, KeepsDuplicates)]
    played = [
        Played(schedule, mine, vllm, once, twice)
        for schedule, mine, vllm, once, twice in zip(schedules, others[0], theirs, others[1], others[2], strict=True)
    ]
    versions = {"vllm": version, "python": platform.python_version()}
    summary = {"versions": versions, "block_size": BLOCK_SIZE, "policy": "lru", **summarise(played)}
    text = json.dumps(summary, indent=2)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")
    sys.exit(bool(summary["untraced"]))


if __name__ == "__main__":
    main()
