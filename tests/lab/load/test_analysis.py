"""From records to figures: what was planted comes back, what cannot be told is not told."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import TraceError
from anaphora.lab.load.analysis import analyse
from anaphora.lab.load.record_file import RECORDS_FILE, Line, LoadWriter, as_line, parse_line, read_load
from anaphora.lab.load.records import Beat, LoadRecord, LoadRun, Window
from anaphora.lab.load.steady import Steady
from anaphora.lab.load.timings import gaps_ms, tpot_ms, ttft_ms
from anaphora.lab.load.verdict import doubts, refusal
from anaphora.traces.records import CounterReading
from tests.lab.load.records import MS, S, header, load_record, stage, window


def closed_stage(num_clients: int, *, seconds: float = 4.0, **changes: Any) -> Steady:
    """Clients that ask again at once, every answer 25 ms long; the window is the middle half."""
    records = [
        load_record(due_ms=25.0 * n + client, client=client, **changes)
        for client in range(num_clients)
        for n in range(round(seconds * 40))
    ]
    return Steady(stage(level=float(num_clients)), window(seconds / 4, 3 * seconds / 4), tuple(records), ())


def run_of(*stages: Steady, slo: dict[str, float] | None = None) -> LoadRun:
    return LoadRun(
        header(*(one.stage for one in stages), slo=slo),
        tuple(record for one in stages for record in one.records),
        tuple(one.window for one in stages),
        tuple(beat for one in stages for beat in one.beats),
    )


@given(st.floats(0.1, 1e4), st.floats(0.1, 100), st.integers(2, 50), st.integers(1, 4))
def test_planted_times_come_back(ttft: float, gap: float, num_events: int, per_event: int) -> None:
    record = load_record(ttft_ms=ttft, gap_ms=gap, num_events=num_events, usage_tokens=num_events * per_event)
    assert ttft_ms(record) == pytest.approx(ttft, abs=1e-5)
    assert gaps_ms(record) == pytest.approx([gap] * (num_events - 1), abs=1e-5)
    span = gap * (num_events - 1)
    assert tpot_ms(record) == pytest.approx(span / (num_events * per_event - 1), abs=1e-5)


@pytest.mark.parametrize(
    "record",
    [
        load_record(error="HTTP 500", num_events=0),
        load_record(error="the stream ended early"),
        load_record(streamed=False, num_events=0),
    ],
)
def test_a_failed_or_unstreamed_answer_has_no_ttft_and_no_tpot(record: LoadRecord) -> None:
    assert ttft_ms(record) is None
    assert tpot_ms(record) is None
    assert gaps_ms(record) == []


@pytest.mark.parametrize("num_clients", [1, 4, 16])
def test_a_steady_closed_loop_has_its_concurrency_and_littles_throughput(num_clients: int) -> None:
    steady = closed_stage(num_clients)
    assert refusal(steady) is None
    row = analyse(run_of(steady))["rows"][0]
    cell = row["on"]
    assert cell["mean_open"] == pytest.approx(num_clients)
    assert cell["most_open"] == num_clients
    assert cell["requests_per_s"] == pytest.approx(40 * num_clients, rel=0.02)
    assert cell["output_tokens_per_s"] == pytest.approx(4 * 40 * num_clients, rel=0.02)
    assert cell["ttft_ms"]["p50"]["value"] == pytest.approx(10)
    assert cell["tpot_ms"]["p50"]["value"] == pytest.approx(5)
    assert cell["itl_ms"]["num_samples"] == 3 * cell["ttft_ms"]["num_samples"]
    assert cell["hit_rate_percent"] == {"usage": 80.0, "usage_of_whole_stages": 80.0, "metrics": None}
    assert row["off"] == {"refused": "it was not run"}
    assert row["ttft_p50_reduction_percent"] is None


def test_warm_up_and_cool_down_are_in_no_latency() -> None:
    steady = closed_stage(1)
    slow = [load_record(due_ms=ms, ttft_ms=900.0) for ms in (-2000.0, 3500.0)]
    with_slow = Steady(steady.stage, steady.window, (*steady.records, *slow), ())
    cell = analyse(run_of(with_slow))["rows"][0]["on"]
    assert cell["e2e_ms"]["p90"]["value"] == pytest.approx(25)
    assert len(with_slow.measured()) == len(steady.measured())


def test_a_concurrency_that_was_not_there_is_refused() -> None:
    half = closed_stage(2)
    steady = Steady(stage(level=4.0), half.window, half.records, ())
    assert "concurrency 4 was not reached: 2.0 requests" in (refusal(steady) or "")
    row = analyse(run_of(steady))["rows"][0]
    assert set(row["on"]) == {"refused"}


@pytest.mark.parametrize(
    ("late_ms", "num_due", "refused"), [(0.0, 100, False), (40.0, 100, False), (60.0, 100, True), (0.0, 200, True)]
)
def test_a_rate_that_was_not_sent_is_refused(late_ms: float, num_due: int, refused: bool) -> None:
    records = tuple(load_record(due_ms=10.0 * n, late_ms=late_ms) for n in range(100))
    steady = Steady(stage(loop="open", level=100.0), window(0.0, 1.0, num_due=num_due), records, ())
    assert ("the rate was not reached" in (refusal(steady) or "")) is refused


def test_an_open_loops_latencies_are_told_from_when_requests_were_due_too() -> None:
    records = tuple(load_record(due_ms=10.0 * n, late_ms=30.0) for n in range(100))
    steady = Steady(stage(loop="open", level=100.0), window(0.0, 1.0, num_due=100), records, ())
    cell = analyse(run_of(steady, slo={"ttft_ms": 20.0}))["rows"][0]["on"]
    assert cell["ttft_ms"]["p50"]["value"] == pytest.approx(10)
    assert cell["from_due"]["ttft_ms"]["p50"]["value"] == pytest.approx(40)
    assert cell["goodput"]["num_within"] == 0  # a user waits from when the request was due
    assert [doubt["name"] for doubt in cell["doubts"]] == ["late sends"]


def test_a_server_that_falls_behind_is_told() -> None:
    records = tuple(load_record(due_ms=10.0 * n, ttft_ms=10.0 + 20 * n) for n in range(100))
    steady = Steady(stage(loop="open", level=100.0), window(0.2, 0.9, num_due=70), records, ())
    assert [doubt.name for doubt in doubts(steady)] == ["server fell behind"]


def test_failed_requests_are_counted_and_never_averaged() -> None:
    steady = closed_stage(1)
    failed = tuple(
        load_record(due_ms=1000.5 + n, num_events=0, error="HTTP 500: no", usage=None, end_ns=round((1000.5 + n) * MS))
        for n in range(3)
    )
    mixed = Steady(steady.stage, steady.window, (*steady.records, *failed), ())
    cell = analyse(run_of(mixed, slo={"ttft_ms": 20.0}))["rows"][0]["on"]
    assert (cell["num_failed"], cell["errors"]) == (3, {"HTTP 500: no": 3})
    assert cell["num_measured"] == cell["ttft_ms"]["num_samples"] + 3
    assert cell["goodput"]["num_requests"] - cell["goodput"]["num_within"] == 3
    assert (
        cell["goodput"]["share_interval"]["low"] < cell["goodput"]["share"] < cell["goodput"]["share_interval"]["high"]
    )


def test_a_stage_of_failures_is_refused_with_their_words() -> None:
    failed = tuple(load_record(due_ms=10.0 * n, num_events=0, error="HTTP 503") for n in range(50))
    assert refusal(Steady(stage(), window(), failed, ())) == "all 50 requests failed, the last with: HTTP 503"
    assert "never became steady: gone" in (refusal(Steady(stage(), window(None, None, stopped="gone"), (), ())) or "")


def test_repetitions_are_pooled_and_a_refused_one_is_left_out() -> None:
    good = closed_stage(2)
    again = Steady(
        stage(level=2.0, number=1, round=1),
        window(1.0, 3.0, stage=1),
        tuple(load_record(due_ms=record.intended_ns / MS, stage=1) for record in good.records),
        (),
    )
    bad = Steady(stage(level=2.0, number=2, round=2), window(None, None, stage=2, stopped="x"), (), ())
    cell = analyse(run_of(good, again, bad))["rows"][0]["on"]
    assert (cell["num_stages"], cell["num_stages_refused"]) == (2, 1)
    assert cell["window_s"] == pytest.approx(4)
    assert cell["requests_per_s"] == pytest.approx(80, rel=0.02)


def test_a_quantile_that_the_sample_cannot_give_is_not_given() -> None:
    records = tuple(load_record(due_ms=25.0 * n) for n in range(40))
    cell = analyse(run_of(Steady(stage(), window(), records, ())))["rows"][0]["on"]
    assert cell["ttft_ms"]["num_samples"] == 40
    assert cell["ttft_ms"]["p90"] is not None
    assert cell["ttft_ms"]["p99"] is None


def test_counters_tell_the_hit_rate_of_whole_stages() -> None:
    steady = closed_stage(1)
    told = Steady(
        steady.stage,
        window(
            1.0,
            3.0,
            counters_before=CounterReading("f", "tokens", 100, 50),
            counters_after=CounterReading("f", "tokens", 300, 200),
        ),
        steady.records,
        (),
    )
    assert analyse(run_of(told))["rows"][0]["on"]["hit_rate_percent"]["metrics"] == pytest.approx(75)


def test_the_closing_table_has_tpot_at_the_lowest_and_throughput_at_the_highest_level() -> None:
    one, many = closed_stage(1), closed_stage(8, ttft_ms=10.0)
    many = Steady(
        stage(level=8.0, number=1),
        window(1.0, 3.0, stage=1),
        tuple(load_record(due_ms=r.intended_ns / MS, stage=1) for r in many.records),
        (),
    )
    closing = analyse(run_of(one, many, slo={"ttft_ms": 15.0}))["closing"]
    assert (closing["lowest_level"], closing["highest_level"]) == (1.0, 8.0)
    assert closing["on"]["tpot_p50_ms"] == pytest.approx(5)
    assert closing["on"]["output_tokens_per_s"] == pytest.approx(1280, rel=0.02)
    assert closing["on"]["goodput_output_tokens_per_s"] == pytest.approx(1280, rel=0.02)
    assert closing["off"]["tpot_p50_ms"] is None


def test_a_busy_client_is_told() -> None:
    steady = closed_stage(1)
    beats = tuple(
        Beat(stage=0, process=0, at_ns=round(1.5 * S), worst_lag_ns=80 * MS, cpu_share=0.97, num_open=1) for _ in "ab"
    )
    found = doubts(Steady(steady.stage, steady.window, steady.records, beats))
    assert [doubt.name for doubt in found] == ["client lag", "client busy"]


def test_a_client_that_stood_still_measured_nothing() -> None:
    steady = closed_stage(1)
    beat = Beat(stage=0, process=0, at_ns=round(1.5 * S), worst_lag_ns=2 * S, cpu_share=0.1, num_open=1)
    found = refusal(Steady(steady.stage, steady.window, steady.records, (beat,)))
    assert found == "the client itself stood still for 2.0 s: this machine is too busy, or it was paused"


def test_lines_come_back_as_they_were_written_and_a_torn_end_is_left_out(tmp_path: Path) -> None:
    steady = closed_stage(1, seconds=0.2)
    beat = Beat(stage=0, process=1, at_ns=5, worst_lag_ns=6, cpu_share=0.5, num_open=2)
    cut = window(counters_before=CounterReading("f", "tokens", 1, 0), stopped="x")
    run = LoadRun(header(steady.stage), steady.records, (cut,), (beat,))
    with LoadWriter(tmp_path / RECORDS_FILE) as writer:
        lines: list[Line] = [run.header, *run.requests, *run.windows, *run.beats]
        for value in lines:
            writer.write(value)
            assert parse_line(as_line(value)) == value
    assert read_load(tmp_path) == run
    with (tmp_path / RECORDS_FILE).open("a") as file:
        file.write('{"kind": "request", "sta')
    assert read_load(tmp_path) == run
    with pytest.raises(TraceError, match="exists already"):
        LoadWriter(tmp_path / RECORDS_FILE)


@pytest.mark.parametrize("text", ["", "{}\n", '{"kind": "window"}\n', "[]\n{}\n", '{"kind": "nothing"}\n{}\n'])
def test_a_file_that_is_no_load_run_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / RECORDS_FILE).write_text(text)
    with pytest.raises(TraceError):
        read_load(tmp_path)


def test_a_window_of_another_stage_is_not_taken() -> None:
    other: Window = window(stage=5)
    run = LoadRun(header(stage()), (), (other,), ())
    assert analyse(run)["rows"][0]["on"] == {"refused": "it was not run"}
