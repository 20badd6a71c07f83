"""A server that grows slower while it is measured is noticed; one that does not is not accused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.lab.drift import check_drift
from anaphora.traces.records import RequestRecord
from tests.lab.records import SENT_NS, record


def run_of(times_ms: list[float], **changes: object) -> list[RequestRecord]:
    return [
        record(
            ttft_ms=time + number * 100,
            e2e_ms=time + number * 100 + 1,
            index=number,
            **changes,  # type: ignore[arg-type]
        )
        for number, time in enumerate(times_ms)
    ]


def moved(records: list[RequestRecord], step_ms: float = 100.0) -> list[RequestRecord]:
    """Sent one after another, each as long as it took."""
    import dataclasses

    return [dataclasses.replace(r, sent_ns=SENT_NS + round(n * step_ms * 1e6)) for n, r in enumerate(records)]


@pytest.mark.parametrize(
    ("times", "status"),
    [
        ([10.0 + 0.2 * n for n in range(30)], "warning"),
        ([20.0 - 0.2 * n for n in range(30)], "warning"),
        ([10.0 + (n * 7 % 5) * 0.1 for n in range(30)], "ok"),
        ([10.0] * 5, "unknown"),
        ([], "unknown"),
    ],
)
def test_drift_is_told_with_its_interval(times: list[float], status: str) -> None:
    check = check_drift(moved(run_of(times)))
    assert check.status == status
    assert ("to first token changed by" in check.seen) is (status != "unknown")


@given(st.lists(st.floats(0.01, 1e6), min_size=10, max_size=40))
def test_a_change_is_never_below_minus_100_percent(times: list[float]) -> None:
    seen = check_drift(moved(run_of(times))).seen
    numbers = [float(number.replace("−", "-").replace(",", "")) for number in re.findall(r"[+−][\d.]+", seen)]
    assert all(number >= -100 for number in numbers), seen


def test_failed_requests_and_warm_ups_do_not_count() -> None:
    slow = [record(error="broken"), record(phase="warmup", ttft_ms=900.0)] * 10
    assert check_drift(slow).status == "unknown"
