"""Every eviction policy on a trace of block hashes, through the cache core itself.

    python -m benchmarks.cache.policies mooncake_conversation.jsonl.gz --out benchmarks/results/cache/policies.json

Requests follow one another; prompts alone are cached, by the engine's rule (full blocks, one token computed). The
policies' constants were tuned on one half of the conversations, and the other half is reported apart. Requests belong
to the same conversation if the first two ids of their blocks are the same.
"""

import argparse
import hashlib
import json
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from anaphora.kvcache.block_pool import BlockPool
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.kvcache.eviction.leaf_heap import Rank
from anaphora.kvcache.eviction.ranked import RankedEviction
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.kvcache.token_blocks import TOKEN_BYTES, TokenBlocks
from anaphora.traces.reader import read_trace
from anaphora.traces.request import HashedPrompt, Trace
from anaphora.types import Namespace, RequestId

SHARES = (0.05, 0.1, 0.2, 0.4)
"""Capacities, as shares of the distinct full blocks."""
NAMESPACE = Namespace("")


class HashedBlocks(TokenBlocks):
    """Full blocks, four bytes each in place of their tokens, and a tail."""

    __slots__ = ()

    def __init__(self, block_ids: Iterable[int], block_size: int, num_tail_tokens: int) -> None:
        self.full = [array("I", [block_id]).tobytes() for block_id in block_ids]
        self.block_size = block_size
        self._tail = array("I", bytes(num_tail_tokens * TOKEN_BYTES))


class Prompt(NamedTuple):
    block_ids: tuple[int, ...]
    num_tokens: int
    num_answer_tokens: int


class FutureEviction(RankedEviction):
    """Belady's bound: the leaf that is used last goes first."""

    def __init__(self, num_blocks: int, next_uses: dict[PrefixNode, int]) -> None:
        super().__init__(num_blocks)
        self.next_uses = next_uses

    def rank(self, node: PrefixNode) -> Rank:
        return (-self.next_uses[node], node.released_at)


def prompts_of(trace: Trace) -> list[Prompt]:
    """The full blocks of each prompt."""
    assert trace.block_size is not None, "this benchmark takes traces of block hashes"
    prompts: list[Prompt] = []
    for request in trace.requests:
        assert isinstance(request.prompt, HashedPrompt)
        num_tokens = request.prompt.num_tokens
        block_ids = tuple(request.prompt.block_ids[: num_tokens // trace.block_size])
        prompts.append(Prompt(block_ids, num_tokens, request.num_output_tokens or 0))
    return prompts


def is_tuning_half(prompt: Prompt) -> bool:
    """One half of the conversations, by a digest of their first two ids."""
    return hashlib.sha256(repr(prompt.block_ids[:2]).encode()).digest()[0] % 2 == 0


def next_uses_of(prompts: Sequence[Prompt]) -> list[list[int]]:
    """For each block of each prompt, which prompt has it next; the number of prompts if none has."""
    upcoming: dict[int, int] = {}
    uses: list[list[int]] = []
    for number in reversed(range(len(prompts))):
        uses.append([upcoming.get(block_id, len(prompts)) for block_id in prompts[number].block_ids])
        upcoming.update(dict.fromkeys(prompts[number].block_ids, number))
    uses.reverse()
    return uses


def replay(prompts: Sequence[Prompt], block_size: int, num_blocks: int, policy: str) -> float:
    """The share of prompt tokens served from the cache. ``belady`` is told the future."""
    name = policy if policy in EVICTION_POLICIES else "lru"
    manager = KVCacheManager(CacheConfig(num_blocks=num_blocks, block_size=block_size, eviction_policy=name))
    future: dict[PrefixNode, int] = {}
    uses = next_uses_of(prompts) if policy == "belady" else []
    if uses:
        manager.pool = BlockPool(num_blocks, FutureEviction(num_blocks, future), manager.prefixes.evict)
    num_cached = 0
    for number, prompt in enumerate(prompts):
        tail = prompt.num_tokens - len(prompt.block_ids) * block_size
        match = manager.match(NAMESPACE, HashedBlocks(prompt.block_ids, block_size, tail))
        num_cached += match.num_cached_tokens
        if len(prompt.block_ids) >= num_blocks:  # of what is longer than the cache, the beginning is cached
            match = manager.match(NAMESPACE, HashedBlocks(prompt.block_ids[:num_blocks], block_size, 0))
        name = RequestId(str(number))
        table = manager.admit(name, match, match.tokens.num_tokens, step=number)
        assert table is not None
        manager.remember_prompt(NAMESPACE, number.to_bytes(TOKEN_BYTES, "little"), name)
        manager.commit(name, match.tokens.num_tokens)
        if uses:
            nodes = [block.node for block in table.blocks if block.node is not None]
            future.update(zip(nodes, uses[number], strict=False))
        manager.free(name, num_answer_tokens=prompt.num_answer_tokens)
    return num_cached / sum(prompt.num_tokens for prompt in prompts)


def compare(prompts: Sequence[Prompt], block_size: int, policies: Sequence[str]) -> dict[str, object]:
    """Token hit rates of all policies at all capacities, and how much of the way from LRU to Belady each one goes."""
    working_set = len({block_id for prompt in prompts for block_id in prompt.block_ids})
    sizes = [int(share * working_set) for share in SHARES]
    rates = {policy: [replay(prompts, block_size, size, policy) for size in sizes] for policy in (*policies, "belady")}
    room = [best - lru for best, lru in zip(rates["belady"], rates["lru"], strict=True)]
    closed: dict[str, dict[str, float]] = {}
    for policy in policies:
        gains = [rate - lru for rate, lru in zip(rates[policy], rates["lru"], strict=True)]
        shares = [gain / gap for gain, gap in zip(gains, room, strict=True)]
        closed[policy] = {"mean": round(sum(shares) / len(shares), 4), "pooled": round(sum(gains) / sum(room), 4)}
    return {
        "num_requests": len(prompts),
        "working_set_blocks": working_set,
        "capacity_blocks": sizes,
        "token_hit_rate": {policy: [round(rate, 5) for rate in row] for policy, row in rates.items()},
        "gap_closed": closed,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path, help="a trace of block hashes")
    parser.add_argument("--policy", action="append", choices=sorted(EVICTION_POLICIES), help="repeatable; all if none")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    trace = read_trace(options.trace)
    prompts, block_size = prompts_of(trace), trace.block_size
    assert block_size is not None
    policies = sorted({"lru", *(options.policy or EVICTION_POLICIES)})
    parts = {
        "all": prompts,
        "tuning half": [prompt for prompt in prompts if is_tuning_half(prompt)],
        "other half": [prompt for prompt in prompts if not is_tuning_half(prompt)],
    }
    results = {name: compare(part, block_size, policies) for name, part in parts.items()}
    text = json.dumps({"trace": options.trace.name, "block_size": block_size, "results": results}, indent=2)
    print(text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
