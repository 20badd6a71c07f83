"""Every eviction policy on real traces and synthetic mixes, through the cache core that the engine runs.

    python -m benchmarks.cache.policies FOLDER --out benchmarks/results/cache/policies.json
    python -m benchmarks.cache.policies FOLDER --out FILE --set conversation --policy return-rate     a part, anew
    python -m benchmarks.cache.policies FOLDER --out FILE --missing --jobs 2      what is not there yet

``FOLDER`` holds the traces of :data:`TRACES`; mixes (:mod:`benchmarks.cache.mixes`) need none. Requests follow one
another; prompts alone are cached, by the engine's rule (full blocks, one token computed), and policies are told how
long the answers were. Capacities are shares of the working set: the distinct full blocks of the set of requests in
question, which is all that the engine could ever cache of it.

Traces are cut in two halves, each of which is a trace of its own, with its own working set and its own Belady bound:
requests whose prompts begin with the same two blocks are in the same half, by a digest of these. Constants of policies
were chosen on the tuning half and on mixes of other seeds (:mod:`benchmarks.cache.tuning`).
"""

import argparse
import gc
import hashlib
import json
import platform
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from benchmarks.cache.mixes import MIXES, make_mix

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import DEFAULT_POLICY, EVICTION_POLICIES
from anaphora.sim.cache_replay import count_by_engine_rule
from anaphora.sim.prefix_paths import next_uses, paths_of
from anaphora.sim.prompt_blocks import PromptBlocks, cut_into_blocks
from anaphora.traces.reader import read_trace
from anaphora.traces.request import HashedPrompt, Trace, TraceRequest

SHARES = (0.05, 0.1, 0.2, 0.4)
SHARES_BETWEEN = (0.035, 0.07, 0.14, 0.28)
BETWEEN = " (between)"
TRACES = {"conversation": "mooncake_conversation.jsonl.gz", "coding sessions": "claude_code_sessions.jsonl.gz"}
HALVES = ("tuning half", "reporting half")
REPORTING_SEEDS = (1, 2)
MIX_REQUESTS = 3000
BELADY = "belady"
ALL_POLICIES = [*EVICTION_POLICIES, BELADY]


def is_tuning_half(request: TraceRequest) -> bool:
    """One half of the groups of requests whose first two blocks are the same."""
    prompt = request.prompt
    assert isinstance(prompt, HashedPrompt)
    return hashlib.sha256(repr(tuple(prompt.block_ids[:2])).encode()).digest()[0] % 2 == 0


def halves(trace: Trace) -> dict[str, Trace]:
    """The two halves of a trace, each in its order of arrival."""
    parts: dict[str, list[TraceRequest]] = {half: [] for half in HALVES}
    for request in trace.requests:
        parts[HALVES[not is_tuning_half(request)]].append(request)
    return {
        name: Trace(trace.path, trace.format, trace.block_size, len(part), tuple(part), ())
        for name, part in parts.items()
    }


def set_names(*, traces: bool, seeds: Sequence[int] = REPORTING_SEEDS) -> list[str]:
    """``NAME``, ``NAME, tuning half``, ``NAME, reporting half`` of each trace, and ``mix NAME, seed N``.

    The reporting halves come a second time, with ``(between)``, at :data:`SHARES_BETWEEN`.
    """
    whole = list(TRACES) if traces else []
    parts = [f"{name}, {half}" for name in whole for half in reversed(HALVES)]
    parts += [f"{name}{BETWEEN}" for name in parts if name.endswith(HALVES[1])]
    return [*parts, *whole, *(f"mix {mix}, seed {seed}" for mix in MIXES for seed in seeds)]


def load_set(name: str, folder: Path | None) -> Trace:
    """The requests of a set of that name."""
    first, _, second = name.removesuffix(BETWEEN).partition(", ")
    if first.startswith("mix "):
        return make_mix(first.removeprefix("mix "), int(second.removeprefix("seed ")), MIX_REQUESTS)
    assert folder is not None
    trace = read_trace(folder / TRACES[first])
    return halves(trace)[second] if second else trace


class Arena:
    """A set of requests, and policies that are tried on it."""

    def __init__(self, trace: Trace, shares: Sequence[float] = SHARES) -> None:
        self.prompts: Sequence[PromptBlocks] = cut_into_blocks(trace)
        self._paths = paths_of(self.prompts)
        full = zip(self.prompts, self._paths, strict=True)
        self.working_set = len({prefix for prompt, path in full for prefix in path[: prompt.num_full_blocks]})
        self.shares = shares
        self.capacities = [max(1, int(share * self.working_set)) for share in shares]

    def hit_rate(self, policy: str, num_blocks: int) -> float:
        """The share of prompt tokens served from the cache."""
        future = None
        if policy == BELADY:
            future = next_uses(self._paths, [prompt.num_reusable_blocks for prompt in self.prompts])
        config = CacheConfig(
            num_blocks=num_blocks,
            block_size=self.prompts[0].block_size,
            eviction_policy="lru" if policy == BELADY else policy,
            max_remembered_prompts=0,
        )
        gc.collect()
        gc.disable()  # the index has no cycles that matter, and grows by thousands of nodes a second
        try:
            counts = count_by_engine_rule(self.prompts, config, future, lambda num_done: None)
        finally:
            gc.enable()
        return counts.num_cached_tokens / counts.num_prompt_tokens

    def try_out(self, policies: Sequence[str]) -> dict[str, Any]:
        """Token hit rates at all capacities, and what they are rates of."""
        return {
            "num_requests": len(self.prompts),
            "num_prompt_tokens": sum(prompt.num_tokens for prompt in self.prompts),
            "block_size": self.prompts[0].block_size,
            "working_set_blocks": self.working_set,
            "shares": list(self.shares),
            "capacity_blocks": self.capacities,
            "token_hit_rate": {
                policy: [round(self.hit_rate(policy, size), 5) for size in self.capacities] for policy in policies
            },
        }


def try_out(name: str, folder: Path | None, policies: Sequence[str]) -> dict[str, Any]:
    """Policies on a set, in whatever process."""
    shares = SHARES_BETWEEN if name.endswith(BETWEEN) else SHARES
    return Arena(load_set(name, folder), shares).try_out(policies)


def merged(known: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """New rates beside those of other policies that are known of the same requests."""
    rates = "token_hit_rate"
    is_same = all(known.get(name) == value for name, value in new.items() if name != rates)
    together = {**(known[rates] if is_same else {}), **new[rates]}
    return {**new, rates: together, **compare(together)}


def compare(rates: dict[str, list[float]]) -> dict[str, Any]:
    """How far each policy goes from LRU to Belady, and how far it is below LRU where that is worst.

    ``mean``: of the shares of the gap closed at each capacity with a gap of at least 0.0001; ``pooled``: all gains
    together against all gaps together.
    """
    if "lru" not in rates:
        return {}
    worst = {
        policy: round(100 * min(rate - lru for rate, lru in zip(row, rates["lru"], strict=True)), 3)
        for policy, row in rates.items()
    }
    if BELADY not in rates:
        return {"worst_points_against_lru": worst}
    gaps = [best - lru for best, lru in zip(rates[BELADY], rates["lru"], strict=True)]
    closed: dict[str, dict[str, float | None]] = {}
    for policy, row in rates.items():
        gains = [rate - lru for rate, lru in zip(row, rates["lru"], strict=True)]
        shares = [gain / gap for gain, gap in zip(gains, gaps, strict=True) if gap >= 0.0001]
        closed[policy] = {
            "mean": round(sum(shares) / len(shares), 4) if shares else None,
            "pooled": round(sum(gains) / sum(gaps), 4) if shares else None,
        }
    return {"gap_closed": closed, "worst_points_against_lru": worst}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", help="where the traces lie; without it, mixes alone")
    parser.add_argument("--set", action="append", default=[], help="sets whose name begins so; repeatable; all if none")
    parser.add_argument("--policy", action="append", choices=ALL_POLICIES, help="repeatable; all if none")
    parser.add_argument("--missing", action="store_true", help="leave out what the file has already")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write, or to bring up to date")
    options = parser.parse_args()
    results: dict[str, Any] = {"sets": {}}
    if options.out.exists():
        results = json.loads(options.out.read_text())
    results.update(default=DEFAULT_POLICY, python=platform.python_version())
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as workers:
        running = {}
        for name in set_names(traces=options.folder is not None):
            known = results["sets"].get(name, {}).get("token_hit_rate", {}) if options.missing else {}
            policies = [policy for policy in options.policy or ALL_POLICIES if policy not in known]
            if policies and (not options.set or name.startswith(tuple(options.set))):
                running[workers.submit(try_out, name, options.folder, policies)] = name
        for future in as_completed(running):
            name, new = running[future], future.result()
            results["sets"][name] = merged(results["sets"].get(name, {}), new)
            print(name, new["token_hit_rate"], flush=True)
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
