"""A pinned prefix outlives what comes after it, and gives way before a request goes without service."""

from tests.scheduler.bench import Bench, make_bench

from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace

SYSTEM = list(range(16))


def pinned_bench(num_blocks: int = 8) -> Bench:
    bench = make_bench(num_blocks)
    bench.add("first", [*SYSTEM, 50])
    bench.drain()
    bench.scheduler.cache.pins.add("system", Namespace(""), TokenBlocks(SYSTEM, 4), now_s=0)
    bench.scheduler.check_integrity()
    return bench


def test_a_pinned_prefix_is_there_after_everything_else_was_evicted() -> None:
    bench = pinned_bench()
    for number in range(60, 65):
        bench.add(str(number), [number] * 15)
        bench.drain()
    bench.add("last", [*SYSTEM, 51])
    bench.drain()
    assert bench.cached("last") == 16
    assert len(bench.scheduler.cache.pins) == 1


def test_a_request_that_finds_no_room_beside_the_pins_gets_theirs() -> None:
    bench = pinned_bench()
    bench.add("long", [70] * 30)
    bench.drain()
    assert len(bench.scheduler.cache.pins) == 0
    assert bench.requests["long"].finish_reason == "length"


def test_pins_do_not_give_way_while_others_run_that_will_make_room() -> None:
    bench = pinned_bench()
    bench.add("short", [70] * 7, max_tokens=2)
    bench.add("long", [80] * 15)
    bench.step()
    assert (bench.scheduler.num_running, bench.scheduler.num_waiting) == (1, 1)
    assert len(bench.scheduler.cache.pins) == 1
    bench.drain()
    assert len(bench.scheduler.cache.pins) == 1


def test_a_request_that_runs_alone_and_grows_gets_the_pins_blocks_before_it_is_preempted() -> None:
    bench = pinned_bench()
    bench.add("growing", [70] * 14, max_tokens=10)
    bench.drain()
    assert len(bench.scheduler.cache.pins) == 0
    assert bench.scheduler.stats.num_preemptions == 0
    assert bench.requests["growing"].num_output_tokens == 10
