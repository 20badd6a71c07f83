"""vLLM's own ``KVCacheManager`` on schedules: run with the interpreter that has vLLM, from the repository's root.

python -m benchmarks.cache.vllm_cache < schedules.json > outcomes.json
"""

import json
import sys
from collections.abc import Callable
from typing import Any

import torch
import vllm
from benchmarks.cache.schedules import BLOCK_SIZE, Player
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

MAX_MODEL_LEN = 1 << 20
LAYER = "layer"


class VllmCache:
    """A ``ScheduledCache``. vLLM keeps one block of the pool for itself, so it gets one more."""

    def __init__(self, num_blocks: int, hasher: Callable[[Any], Any]) -> None:
        spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
        config = KVCacheConfig(
            num_blocks=num_blocks + 1, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec([LAYER], spec)]
        )
        self._manager = KVCacheManager(
            config, max_model_len=MAX_MODEL_LEN, scheduler_block_size=BLOCK_SIZE, hash_block_size=BLOCK_SIZE
        )
        self._hasher = hasher
        self._requests: dict[str, Any] = {}
        self._found: Any = None
        self._num_cached = 0

    def lookup(self, name: str, salt: str, tokens: list[int]) -> int:
        request = Request(
            name, tokens, SamplingParams(max_tokens=1), None, cache_salt=salt or None, block_hasher=self._hasher
        )
        self._requests[name] = request
        self._found, self._num_cached, _ = self._manager.get_computed_blocks(request)
        return int(self._num_cached)

    def admit(self, name: str, num_tokens: int) -> bool:
        request = self._requests[name]
        num_new = num_tokens - self._num_cached
        there = self._manager.allocate_slots(request, num_new, self._num_cached, self._found) is not None
        if not there:
            del self._requests[name]
        return there

    def append(self, name: str, token: int) -> None:
        self._requests[name].append_output_token_ids(token)

    def allocate(self, name: str, num_tokens: int) -> bool:
        request = self._requests[name]
        return self._manager.allocate_slots(request, num_tokens - request.num_computed_tokens) is not None

    def commit(self, name: str, num_tokens: int) -> None:
        self._requests[name].num_computed_tokens = num_tokens

    def free(self, name: str) -> None:
        self._manager.free(self._requests.pop(name))

    def reset(self) -> bool:
        return bool(self._manager.reset_prefix_cache())

    def num_duplicates(self) -> int:
        """Counted over all blocks, free ones that are still cached included."""
        hashes = [block.block_hash for block in self._manager.block_pool.blocks if block.block_hash is not None]
        return len(hashes) - len(set(hashes))


def main() -> None:
    init_none_hash(sha256)
    hasher = get_request_block_hasher(BLOCK_SIZE, sha256)
    schedules = json.load(sys.stdin)
    outcomes = [Player(VllmCache(schedule["num_blocks"], hasher)).play(schedule) for schedule in schedules]
    json.dump({"version": vllm.__version__, "outcomes": outcomes}, sys.stdout)


if __name__ == "__main__":
    main()
