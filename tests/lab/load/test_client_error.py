"""A client that does not time truly: load is spread, refused, or the report says what not to believe."""

import dataclasses
from typing import Any

import pytest

from anaphora.lab.calibration.calibrate import ClientError, Spread
from anaphora.lab.load import capacity
from anaphora.lab.load.capacity import Capacity, processes_for
from anaphora.lab.load.client_error import client_error
from anaphora.lab.load.records import LoadRun, Stage
from anaphora.lab.time_checks import client_error as client_error_of_bench
from tests.lab.load.records import header, stage


def found(num_streams: int, *, median: float = 0.1, late: float = 0.0) -> ClientError:
    spread = Spread(median, 5 * median, 1000, late)
    return ClientError(num_streams, spread, spread, 1.0)


@pytest.mark.parametrize(
    ("calibrated", "per_process", "in_time"),
    [
        ([found(1), found(64), found(256)], 256, 256),
        ([found(1), found(64), found(256, late=34.0)], 256, 64),
        ([found(1), found(64, late=1.0), found(256, median=4.0)], 64, 1),
        ([found(1, late=2.0), found(64, late=5.0)], 64, 0),
        ([found(1, median=9.0)], 0, 0),
        ([], 0, 0),
    ],
)
def test_what_a_process_can_carry_is_told_with_and_without_a_true_tail(
    calibrated: list[ClientError], per_process: int, in_time: int
) -> None:
    made = capacity._capacity(calibrated)
    assert (made.per_process, made.in_time) == (per_process, in_time)
    stored = made.as_stored()
    assert (stored["streams_per_process"], stored["streams_per_process_in_time"]) == (per_process, in_time)


@pytest.mark.parametrize(
    ("num_streams", "in_time", "most", "needed"),
    [(256, 64, 4, 4), (256, 64, 8, 4), (256, 64, 3, 1), (300, 64, 4, 2), (256, 0, 8, 1), (64, 64, 8, 1)],
)
def test_load_is_spread_for_a_true_tail_where_there_are_processes_enough(
    num_streams: int, in_time: int, most: int, needed: int
) -> None:
    assert processes_for(num_streams, Capacity(256, (), in_time), most) == needed


def run_of(calibrated: list[ClientError], *stages: Stage) -> LoadRun:
    plain = header(*stages)
    stored = capacity._capacity(calibrated).as_stored()
    return LoadRun(dataclasses.replace(plain, environment={**plain.environment, "client_error": stored}), (), (), ())


BUSY = [found(1), found(64), found(256, late=34.0)]


@pytest.mark.parametrize(
    ("stages", "status", "said"),
    [
        ([stage(level=256.0)], "warning", "with 256 streams 34.0% of the events were read late: P99 of so many"),
        ([stage(level=65.0)], "warning", "with 256 streams"),
        ([stage(level=64.0)], "ok", "1 streams: 0.10 and 0.50 ms, 64 streams: 0.10 and 0.50 ms"),
        ([dataclasses.replace(stage(level=256.0), num_processes=4)], "ok", "64 streams: 0.10 and 0.50 ms"),
        ([stage(level=3.0), stage(level=5.0, loop="open")], "warning", "with 256 streams"),
        ([stage(level=3.0), dataclasses.replace(stage(level=256.0), number=1)], "warning", "with 256 streams"),
    ],
)
def test_the_report_says_which_tails_not_to_trust(stages: list[Stage], status: str, said: str) -> None:
    check = client_error(run_of(BUSY, *stages))
    assert (check.status, said in check.seen) == (status, True), check.seen


def test_a_median_beyond_the_limit_is_told_too() -> None:
    check = client_error(run_of([found(1, median=9.0)], stage(level=1.0)))
    assert check.status == "warning"
    assert "9.00 and 45.00 ms" in check.seen


@pytest.mark.parametrize(
    ("error", "late", "status", "said"),
    [
        ({"median": 0.05, "p99": 0.08}, 0.0, "ok", "0.08 ms (99th percentile) of 20"),
        ({"median": 0.05, "p99": 6.4}, 0.0, "warning", "6.40 ms (99th percentile)"),
        ({"median": 0.05, "p99": 0.08}, 2.5, "warning", "2.5% of the events were read late: do not trust"),
        ({"median": 1.5, "p99": 2.0}, 0.0, "warning", "1.50 ms late (median)"),
    ],
)
def test_a_bench_says_so_of_its_one_stream(error: dict[str, float], late: float, status: str, said: str) -> None:
    environment: dict[str, Any] = {
        "client_error": {
            "ttft_error_ms": {"1": {**error, "num_samples": 20}},
            "event_error_ms": {"1": {"read_late_percent": late}},
        }
    }
    check = client_error_of_bench(environment)
    assert (check.status, said in check.seen) == (status, True), check.seen
