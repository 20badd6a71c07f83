"""What the trust section says of counters and of the server's own times."""

import itertools
from typing import Any

import pytest

from anaphora.lab import trust
from anaphora.traces.records import CounterReading, RequestRecord, Run, RunHeader
from tests.lab.records import record

HEADER = RunHeader(
    run_id="r",
    started_at="2026-11-29T12:00:00+00:00",
    num_planned_requests=3,
    settings={"seed": 0, "mechanism": "salt"},
    target={"kind": "vLLM", "model": "m", "version": None, "cache_settings": {}},
    environment={"num_cpus": 2, "processor": "p", "load_average": [0.1, 0.1, 0.1]},
)


def checks(records: list[RequestRecord]) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in trust.checks(Run(HEADER, tuple(records)))}


def spans(*values: float, unit: str = "tokens") -> list[RequestRecord]:
    """Requests of 100 prompt tokens each, one between every two readings."""
    readings = [CounterReading("vllm:prefix_cache", unit, value, 0) for value in values]
    return [
        record(index=i, counters_before=a, counters_after=b) for i, (a, b) in enumerate(itertools.pairwise(readings), 1)
    ]


@pytest.mark.parametrize(
    ("records", "status", "words"),
    [
        (spans(0, 100, 200), "ok", "counted no token that was not sent by this run"),
        (spans(0, 100, 900), "warning", "counted 700 tokens more than were sent, in 1 of 2 requests: others use"),
        (spans(900, 100, 200), "warning", "went back in 1 requests: the server restarted"),
        (spans(0, 7, 14, unit="blocks"), "unknown", "whether other requests ran cannot be told"),
        ([record()], "unknown", "publishes no cache counters"),
    ],
)
def test_counters_are_watched(records: list[RequestRecord], status: str, words: str) -> None:
    check = checks(records)["counters"]
    assert check["status"] == status
    assert words in check["seen"]


def test_names_that_change_in_the_middle_are_told() -> None:
    renamed = record(
        counters_before=CounterReading("f", "tokens", 1, 0), counters_after=CounterReading("g", "tokens", 2, 0)
    )
    assert "names changed during the run: f, g" in checks([renamed])["counters"]["seen"]


def test_where_hits_came_from_is_said_beside_the_counters_witness() -> None:
    before = CounterReading("sglang", "tokens", 0, 0, {"device": 0, "host": 0})
    after = CounterReading("sglang", "tokens", 100, 96, {"device": 80, "host": 16})
    seen = checks([record(counters_before=before, counters_after=after)])["witnesses agree"]["seen"]
    assert "metrics: 96 of 100 tokens cached (device 80, host 16)" in seen


def test_the_servers_own_times_are_compared_where_it_tells_them() -> None:
    usage = {"prompt_tokens": 100, "metrics": {"queue_time_ms": 1.0, "time_to_first_token_ms": 6.0}}
    told = checks([record(ttft_ms=10.0, usage=usage), record(ttft_ms=12.0, usage=usage)])["server's own times"]
    assert told["status"] == "ok"
    assert "the client's TTFT is 4.0 ms more than the server's own, in the median of 2 requests" in told["seen"]
    assert "server's own times" not in checks([record()])
