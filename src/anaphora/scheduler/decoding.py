"""Many steps at once, as long as each running request decodes and nobody comes or goes. For who knows all tokens.

A decode step of a request touches the cache only where it begins a block or fills one. In between, any number of steps
is one change of its counts. What the cache sees, and in which order, is the same as step by step.
"""

from collections.abc import Mapping, Sequence

from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.arrival_queue import ArrivalQueue
from anaphora.scheduler.request import Request
from anaphora.types import RequestId


def num_decode_steps(running: ArrivalQueue, cache: KVCacheManager, max_tokens: int) -> int:
    """How many steps the running requests can decode together until the first of them ends or blocks may run out.

    0 if any does something else: computes its prompt, waits for the end of another's block, or may end with a token.
    ``max_tokens``: most tokens of a request.
    """
    num_steps = max_tokens
    for request in running:
        if request.num_computed_tokens != request.num_tokens - 1 or not request.num_output_tokens:
            return 0
        if request.stop_token_ids or _is_behind(request, cache):
            return 0
        num_left = min(request.max_tokens - request.num_output_tokens, max_tokens - request.num_tokens)
        num_steps = min(num_steps, num_left - 1)
    if num_steps > 0 and _num_new_blocks(running, cache, num_steps) > cache.pool.num_available:
        return 0
    return max(num_steps, 0)


def decode(
    running: ArrivalQueue, cache: KVCacheManager, tokens: Mapping[RequestId, Sequence[int]], first_step: int
) -> int:
    """Let each running request compute its last token and sample the next, as often as it has ``tokens``.

    All have the same number of them, at most :func:`num_decode_steps`; returns it.
    """
    block_size = cache.config.block_size
    due: dict[int, dict[Request, int]] = {}
    num_steps = 0
    for request in running:
        sampled, start = tokens[request.request_id], request.num_computed_tokens
        num_steps = len(sampled)
        request.decode(sampled)
        for end in _ends_that_matter(start, num_steps, block_size):
            due.setdefault(end - start - 1, {})[request] = end
    for step in range(num_steps):
        if step in due:
            _take_step(due[step], cache, first_step + step)
    return num_steps


def _ends_that_matter(start: int, num_steps: int, block_size: int) -> list[int]:
    """Numbers of computed tokens, from ``start`` on, at which a block has just begun or is just filled."""
    ends = range(start + 1, start + num_steps + 1)
    firsts = range(start + 1 + -start % block_size, ends.stop, block_size)
    fulls = range(start + 1 + -(start + 1) % block_size, ends.stop, block_size)
    return sorted({*firsts, *fulls})


def _take_step(due: Mapping[Request, int], cache: KVCacheManager, step: int) -> None:
    """One step of the requests that it means anything to, in the order of their arrival.

    Of equal blocks the first one's is cached, and the others take it over in the same step: nobody falls behind.
    """
    for request, end in due.items():
        table = cache.allocate(request.request_id, end, step=step)
        assert table is not None, "there are fewer blocks than were counted"
    for request, end in due.items():
        cache.commit(request.request_id, end)


def _is_behind(request: Request, cache: KVCacheManager) -> bool:
    """Whether a full block of the request is not cached yet, as another request was computing the same."""
    num_full = request.num_computed_tokens // cache.config.block_size
    return cache.config.enable_prefix_caching and cache.tables[request.request_id].num_indexed < num_full


def _num_new_blocks(running: ArrivalQueue, cache: KVCacheManager, num_steps: int) -> int:
    """Blocks that the requests take in so many steps."""
    size, tables = cache.config.block_size, cache.tables
    return sum(
        -(-(request.num_computed_tokens + num_steps) // size) - tables[request.request_id].num_blocks
        for request in running
    )
