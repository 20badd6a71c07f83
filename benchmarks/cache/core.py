"""Speed and memory of the cache core on one long prompt, beside vLLM's ``KVCacheManager`` in the same run.

    python -m benchmarks.cache.core --python VLLM_ENVIRONMENT/bin/python --out benchmarks/results/cache/core.json

A prompt of 131 072 tokens (8 192 blocks of 16) is stored, given up, looked up and held again, in pools of several
sizes that are full of other prompts, so that each new prompt evicts one. Each arm is a process of its own; the arms
take turns. Without ``--python`` our arms run alone. Memory is the growth of a process in which a pool of a million
blocks is filled, all included: pool, index, tokens, census, the policy, and what is remembered of earlier prompts.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import describe_hardware

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.events import CacheEvent
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

BLOCK_SIZE = 16
PROMPT_BLOCKS = 8192
POOL_SIZES = (10_000, 100_000, 1_000_000)
MEMORY_BLOCKS = 1_000_000
NAMESPACE = Namespace("")
LIMIT_S = 1200


class Timed:
    """Our manager, each call timed in milliseconds."""

    def __init__(self, num_blocks: int, policy: str, *, listen: bool) -> None:
        config = CacheConfig(num_blocks=num_blocks, block_size=BLOCK_SIZE, eviction_policy=policy)
        self.manager = KVCacheManager(config, listener=self._hear if listen else None)
        self.times: dict[str, list[float]] = {}
        self._num_requests = 0

    def prompt(self, packed: bytes) -> None:
        """New, given up, looked up, held again, given up again."""
        manager, name = self.manager, RequestId("r")
        tokens = self._timed("pack", lambda: TokenBlocks(packed, BLOCK_SIZE))
        match = manager.match(NAMESPACE, tokens)
        assert match.num_blocks == 0, match.num_blocks
        self._num_requests += 1
        step, num_tokens = self._num_requests, tokens.num_tokens
        self._timed("allocate and commit", lambda: self._allocate_and_commit(name, match, num_tokens, step))
        manager.remember_prompt(NAMESPACE, packed, RequestId(f"r{step}"))
        self._timed("free", lambda: manager.free(name))
        match = self._timed("lookup", lambda: manager.match(NAMESPACE, tokens))
        assert match.num_cached_tokens == num_tokens - BLOCK_SIZE, match.num_cached_tokens
        self._timed("hold", lambda: manager.admit(name, match, num_tokens, step=step))
        manager.commit(name, num_tokens)
        manager.free(name)

    def _allocate_and_commit(self, name: RequestId, match: Any, num_tokens: int, step: int) -> None:
        assert self.manager.admit(name, match, num_tokens, step=step)
        self.manager.commit(name, num_tokens)

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        self.times.setdefault(name, []).append(1000 * (time.perf_counter() - start))
        return result

    def _hear(self, event: CacheEvent) -> None:
        """Digests are made where somebody listens."""


def packed_prompt(number: int, num_blocks: int) -> bytes:
    """Tokens that no other prompt has."""
    start = number * num_blocks * BLOCK_SIZE
    return array("I", range(start, start + num_blocks * BLOCK_SIZE)).tobytes()


def time_ours(num_blocks: int, repeats: int, policy: str, listen: bool) -> dict[str, list[float]]:
    """Times of each operation, once the pool is full."""
    timed = Timed(num_blocks, policy, listen=listen)
    num_fill = num_blocks // PROMPT_BLOCKS
    for number in range(num_fill + repeats):
        if number == num_fill:
            timed.times.clear()
        timed.prompt(packed_prompt(number, PROMPT_BLOCKS))
    return timed.times


def memory_prompts(shape: str) -> Iterator[tuple[bytes, int]]:
    """Prompts that fill a pool, and how many blocks each adds."""
    number = 0
    system = packed_prompt(1 << 16, 32)
    while True:
        number += 1
        if shape == "conversations":  # a system prompt that all share, and four turns of 40 blocks
            prompt = system
            for turn in range(4):
                prompt += packed_prompt(5 * number + turn, 40)
                yield prompt, 40 if number > 1 or turn else 72
        else:
            num_blocks = int(shape)
            yield packed_prompt(number, num_blocks), num_blocks


def bytes_per_block(shape: str, policy: str) -> float:
    """Growth of this process while a pool of a million blocks is filled."""
    before = resident_bytes()
    timed = Timed(MEMORY_BLOCKS, policy, listen=False)
    num_stored = 0
    for number, (packed, num_new) in enumerate(memory_prompts(shape)):
        if num_stored + num_new + 1 > MEMORY_BLOCKS:
            break
        num_stored += num_new
        name, tokens = RequestId(f"r{number}"), TokenBlocks(packed, BLOCK_SIZE)
        match = timed.manager.match(NAMESPACE, tokens)
        assert timed.manager.admit(name, match, tokens.num_tokens, step=number)
        timed.manager.remember_prompt(NAMESPACE, packed, name)
        timed.manager.commit(name, tokens.num_tokens)
        timed.manager.free(name)
    assert timed.manager.stats.num_stored_blocks == num_stored
    return (resident_bytes() - before) / num_stored


def resident_bytes() -> int:
    """Memory of this process that is in use."""
    words = Path("/proc/self/status").read_text().split()
    return 1024 * int(words[words.index("VmRSS:") + 1])


def in_process(*words: str) -> Any:
    """One arm of this program in a process of its own."""
    return _run([sys.executable, "-m", "benchmarks.cache.core", "--arm", *words])


def _run(command: list[str]) -> Any:
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT_S)
    return json.loads(done.stdout.splitlines()[-1])


def run_arm(words: list[str]) -> Any:
    """What a process of its own does."""
    if words[0] == "memory":
        return bytes_per_block(words[1], words[2])
    return time_ours(int(words[1]), int(words[2]), words[3], words[0] == "digests")


def compare(pool_sizes: list[int], repeats: int, rounds: int, python: str | None) -> list[dict[str, Any]]:
    """Raw samples of all arms: in each round every arm once, in turn."""
    samples: list[dict[str, Any]] = []
    for num_blocks in pool_sizes:
        for number in range(rounds):
            for arm, policy in (("ours", "lru"), ("ours", "default"), ("digests", "lru")):
                times = in_process(arm, str(num_blocks), str(repeats), policy)
                samples.append({"arm": f"{arm} {policy}", "pool": num_blocks, "round": number, "ms": times})
            if python:
                sizes = [str(num_blocks), str(PROMPT_BLOCKS), str(repeats)]
                answer = _run([python, "-m", "benchmarks.cache.core_vllm", *sizes])
                arm = f"vllm {answer['version']}"
                samples.append({"arm": arm, "pool": num_blocks, "round": number, "ms": answer["times"]})
    return samples


def summarise(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each arm and pool, the median and the least time of each operation."""
    rows: dict[tuple[str, int], dict[str, list[float]]] = {}
    for sample in samples:
        row = rows.setdefault((sample["arm"], sample["pool"]), {})
        for operation, times in sample["ms"].items():
            row.setdefault(operation, []).extend(times)
    return [
        {
            "arm": arm,
            "pool": pool,
            "median_ms": {name: round(statistics.median(times), 3) for name, times in row.items()},
            "least_ms": {name: round(min(times), 3) for name, times in row.items()},
        }
        for (arm, pool), row in rows.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="an interpreter with vLLM")
    parser.add_argument("--pool", type=int, action="append", help="blocks; repeatable; three sizes if none")
    parser.add_argument("--repeats", type=int, default=10, help="prompts timed in each process")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    parser.add_argument("--arm", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.arm:
        print(json.dumps(run_arm(options.arm)))
        return
    load_before = os.getloadavg()
    samples = compare(options.pool or list(POOL_SIZES), options.repeats, options.rounds, options.python)
    shapes = ("8192", "128", "conversations", "8")
    memory = {shape: round(in_process("memory", shape, "default"), 1) for shape in shapes}
    results = {
        "hardware": describe_hardware(),
        "python": platform.python_version(),
        "load_before": load_before,
        "load_after": os.getloadavg(),
        "prompt_blocks": PROMPT_BLOCKS,
        "block_size": BLOCK_SIZE,
        "summary": summarise(samples),
        "bytes_per_block": memory,
        "samples": samples,
    }
    print(json.dumps({name: value for name, value in results.items() if name != "samples"}, indent=2))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
