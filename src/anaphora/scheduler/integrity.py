"""The audit of requests, queues and cache. Runs after every step in the tests."""

from collections.abc import Sequence

from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.request import Request, RequestStatus


def check_integrity(
    running: Sequence[Request], waiting: Sequence[Request], cache: KVCacheManager, *, is_between_steps: bool
) -> None:
    """Raise ``AssertionError`` where the books do not balance."""
    cache.check_integrity()
    for queue in (running, waiting):
        assert [r.arrival for r in queue] == sorted({r.arrival for r in queue}), queue
    assert all(r.status is RequestStatus.RUNNING for r in running), running
    assert all(r.status in (RequestStatus.WAITING, RequestStatus.PREEMPTED) for r in waiting), waiting
    assert {r.request_id for r in running} == set(cache.tables)
    for request in running:
        table = cache.tables[request.request_id]
        assert table.tokens.num_tokens == request.num_tokens > request.num_computed_tokens, request
        num_computed_blocks = -(-request.num_computed_tokens // cache.config.block_size)
        assert table.num_indexed <= num_computed_blocks <= table.num_blocks, request
    if is_between_steps:
        assert not any(table.pending for table in cache.tables.values())
