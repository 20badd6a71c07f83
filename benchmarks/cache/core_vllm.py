"""vLLM's ``KVCacheManager`` through the operations of ``core.py``: run with the interpreter that has vLLM.

    python -m benchmarks.cache.core_vllm NUM_BLOCKS PROMPT_BLOCKS REPEATS

Prints one JSON object: for each operation, its times in milliseconds. Hashing is apart: vLLM does it when it makes a
request, here from a list of token ids, as its server has them.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import vllm
from vllm.sampling_params import SamplingParams
from vllm.utils.hashing import sha256
from vllm.v1.core.kv_cache_manager import KVCacheManager
from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
from vllm.v1.request import Request

BLOCK_SIZE = 16


class Timed:
    """vLLM's manager, each call timed."""

    def __init__(self, num_blocks: int) -> None:
        spec = FullAttentionSpec(block_size=BLOCK_SIZE, num_kv_heads=1, head_size=1, dtype=torch.float32)
        groups = [KVCacheGroupSpec(["layer"], spec)]
        config = KVCacheConfig(num_blocks=num_blocks + 1, kv_cache_tensors=[], kv_cache_groups=groups)
        self._manager = KVCacheManager(
            config, max_model_len=1 << 24, scheduler_block_size=BLOCK_SIZE, hash_block_size=BLOCK_SIZE
        )
        self._hasher = get_request_block_hasher(BLOCK_SIZE, sha256)
        self.times: dict[str, list[float]] = {}

    def prompt(self, name: str, tokens: list[int]) -> None:
        """New, given up, looked up, held again, given up again."""
        request = self._timed("request with hashes", lambda: self._request(name, tokens))
        found, num_cached, _ = self._manager.get_computed_blocks(request)
        assert num_cached == 0, num_cached
        num_new = len(tokens)
        blocks = self._timed(
            "allocate and commit", lambda: self._manager.allocate_slots(request, num_new, num_cached, found)
        )
        assert blocks is not None
        self._timed("free", lambda: self._manager.free(request))
        again = self._request(name + "-again", tokens)
        found, num_cached, _ = self._timed("lookup", lambda: self._manager.get_computed_blocks(again))
        assert num_cached == len(tokens) - BLOCK_SIZE, num_cached
        self._timed("hold", lambda: self._manager.allocate_slots(again, BLOCK_SIZE, num_cached, found))
        self._manager.free(again)

    def _request(self, name: str, tokens: list[int]) -> Any:
        return Request(name, tokens, SamplingParams(max_tokens=1), None, block_hasher=self._hasher)

    def _timed(self, name: str, call: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        result = call()
        self.times.setdefault(name, []).append(1000 * (time.perf_counter() - start))
        return result


def main() -> None:
    num_blocks, prompt_blocks, repeats = (int(word) for word in sys.argv[1:])
    init_none_hash(sha256)
    timed = Timed(num_blocks)
    num_fill = num_blocks // prompt_blocks
    for number in range(num_fill + repeats):
        start = number * prompt_blocks * BLOCK_SIZE
        if number == num_fill:
            timed.times.clear()
        timed.prompt(f"r{number}", list(range(start, start + prompt_blocks * BLOCK_SIZE)))
    json.dump({"version": vllm.__version__, "times": timed.times}, sys.stdout)


if __name__ == "__main__":
    main()
