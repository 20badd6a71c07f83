"""A run's counters: restarts, renamed families and other people's requests are noticed; what cannot be told is
unknown."""

from typing import Any

from anaphora.lab.counter_chain import CounterChain
from anaphora.traces.records import CounterReading, RequestRecord
from tests.lab.records import record


def span(before: tuple[float, float] | None, after: tuple[float, float] | None, **changes: Any) -> RequestRecord:
    """A record of a request of 100 prompt tokens between two readings."""
    names = {"family": "f", "unit": "tokens", **changes}
    readings = [
        None if pair is None else CounterReading(names["family"], names["unit"], *pair) for pair in (before, after)
    ]
    return record(counters_before=readings[0], counters_after=readings[1])


def test_a_quiet_server_counts_what_was_sent_and_nothing_else() -> None:
    chain = CounterChain.of([span((0, 0), (100, 0)), span((100, 0), (200, 96))])
    assert chain == CounterChain(("f",), 2, 0, 0, 0)


def test_a_request_that_is_not_looked_up_is_no_foreign_traffic() -> None:
    assert CounterChain.of([span((100, 0), (100, 0))]).num_foreign_tokens == 0


def test_foreign_traffic_is_counted_in_tokens_and_requests() -> None:
    chain = CounterChain.of([span((0, 0), (100, 0)), span((100, 0), (750, 96)), span((750, 96), (900, 96))])
    assert (chain.num_foreign_tokens, chain.num_requests_with_foreign) == (600, 2)


def test_a_restart_is_seen_by_either_counter_and_its_tokens_are_not_guessed() -> None:
    chain = CounterChain.of([span((500, 90), (100, 0)), span((500, 90), (600, 80)), span((600, 80), (700, 80))])
    assert (chain.num_resets, chain.num_foreign_tokens) == (2, 0)


def test_blocks_and_silent_answers_leave_foreign_traffic_unknown() -> None:
    assert CounterChain.of([span((0, 0), (9, 0), unit="blocks")]).num_foreign_tokens is None
    silent = record(
        counters_before=CounterReading("f", "tokens", 0, 0),
        counters_after=CounterReading("f", "tokens", 900, 0),
        usage=None,
    )
    assert CounterChain.of([silent]).num_foreign_tokens is None


def test_other_names_in_the_middle_are_told_and_missing_readings_left_out() -> None:
    renamed = record(
        counters_before=CounterReading("f", "tokens", 100, 0), counters_after=CounterReading("g", "tokens", 50, 0)
    )
    chain = CounterChain.of([span((0, 0), (100, 0)), renamed, span(None, (10, 0)), span((10, 0), None)])
    assert (chain.families, chain.num_readings, chain.num_resets) == (("f", "g"), 2, 0)
    assert CounterChain.of([]) == CounterChain((), 0, 0, None, 0)
