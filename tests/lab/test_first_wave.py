"""A cold start at the beginning of what is measured is pointed at, and stays in the statistics."""

import pytest

from anaphora.lab.first_wave import num_cold
from anaphora.lab.load.analysis import analyse
from anaphora.lab.load.records import LoadRecord, LoadRun
from anaphora.lab.load.trust import checks
from anaphora.lab.time_checks import first_wave
from anaphora.traces.records import RequestRecord
from tests.lab.load.records import MS, header, load_record, stage, window
from tests.lab.records import record


@pytest.mark.parametrize(
    ("times", "cold"),
    [
        ([9000, 9250, 9500, 9750, *[230] * 30], 4),
        ([230] * 30, 0),
        ([230, 9000, *[230] * 30], 0),  # a straggler later is no start
        ([900, *[230] * 30], 0),
        ([9000, 230, 230, 230, 230], 0),  # four others are too few
        ([9000, *[230] * 5], 1),
        ([], 0),
        ([*[9000] * 20, *[230] * 14], 0),  # more than half are no beginning
    ],
)
def test_how_many_of_the_first_are_cold(times: list[float], cold: int) -> None:
    assert num_cold(times) == cold


def mixed() -> list[LoadRecord]:
    """Four cold requests, thirty others, three that failed, two without a token, one that was not streamed."""
    cold = [load_record(number=n, due_ms=0, ttft_ms=9000.0 + 250 * n, num_events=1) for n in range(4)]
    usual = [
        load_record(number=4 + n, due_ms=1000 + 500 * n, ttft_ms=200.0 + 37 * n % 61, num_events=1) for n in range(30)
    ]
    failed = [load_record(number=34 + n, due_ms=20_000, num_events=0, error="HTTP 500", usage=None) for n in range(3)]
    empty = [load_record(number=37 + n, due_ms=25_000, num_events=0) for n in range(2)]
    whole = [load_record(number=39, due_ms=28_000, num_events=0, streamed=False, end_ns=28_950 * MS)]
    return [*cold, *usual, *failed, *empty, *whole]


def test_a_load_says_which_rows_are_in_no_time_and_points_at_the_first_wave() -> None:
    one = stage(level=0.1)
    run = LoadRun(header(one), tuple(mixed()), (window(0.0, 30.0),), ())
    load = analyse(run)
    cell = load["rows"][0]["on"]
    assert (cell["num_failed"], cell["num_without_token"], cell["num_not_streamed"]) == (3, 2, 1)
    times = cell["ttft_ms"]
    assert (times["num_samples"], times["p50"]["value"], times["p90"]["value"]) == (34, 235.0, pytest.approx(6378.0))
    assert times["p99"] is None  # 34 samples do not reach so far
    said = {check["name"]: check["seen"] for check in checks(run, load, ())}
    assert "the first 4 requests took 9,000 to 9,750 ms to their first token" in said["first wave"]
    assert said["streamed"] == (
        "1 answers were not streamed: they have no TTFT; 2 answers carried no token: they have no TTFT"
    )


def of_length(index: int, group: int, ttft_ms: float) -> RequestRecord:
    sent = (index + 2) * 10**10
    first = sent + round(ttft_ms * 1e6)
    return record(experiment="gradient", group=group, index=index, sent_ns=sent, first_token_ns=first)


def test_experiments_compare_each_request_with_its_like() -> None:
    long_and_short = [of_length(n, (100, 4000)[n % 2], (20.0, 800.0)[n % 2]) for n in range(1, 21)]
    assert first_wave(long_and_short) is None  # a long prompt is no cold start
    started = [of_length(-1, 100, 400.0), of_length(0, 4000, 9000.0), *long_and_short]
    found = first_wave(started)
    assert found is not None
    assert found.status == "warning"
    assert found.seen.startswith("the first 2 of 22 measured requests took at least 11 times as long as their like")
