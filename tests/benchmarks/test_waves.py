"""The waves program on few clients: both arms, over a device that takes its time and is never faster than that."""

import pytest
from benchmarks.serving import waves
from benchmarks.serving.waves import ARMS, PASS_MS

from anaphora.engine.gpu.runner import ComputingPass


def test_both_arms_are_measured_and_the_device_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    own = ComputingPass.may_be_followed
    monkeypatch.setattr(waves, "NUM_CLIENTS", 40)
    monkeypatch.setattr(waves, "OUTPUT", 5)
    rows = {arm["arm"]: arm["rounds"] for arm in waves.measure(2)}
    assert set(rows) == set(ARMS)
    for found in (row for of_arm in rows.values() for row in of_arm):
        assert found["ttft_median_ms"] <= found["ttft_last_ms"] <= found["total_ms"]
        assert found["total_ms"] >= 5 * PASS_MS[1]
        assert 0 <= found["device_idle_ms"] < found["total_ms"]
    assert [len(of_arm) for of_arm in rows.values()] == [2, 2]
    assert ComputingPass.may_be_followed is own
