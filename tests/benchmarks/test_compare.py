"""The CPU comparison's pure parts: reading streams, sizing prompts, and what becomes of the samples."""

import asyncio
import json
from pathlib import Path
from typing import cast

import pytest
from benchmarks.cpu import meter
from benchmarks.cpu.client import ServerFailedError, read_reply
from benchmarks.cpu.compare import write_summary
from benchmarks.cpu.host_path import STAGES, stage_times_ms
from benchmarks.cpu.prompts import NEW_TOKENS, PromptSizer, system_prompt
from benchmarks.cpu.rows import AIMED, Row
from benchmarks.cpu.sample import Recorder, Sample, read_samples
from benchmarks.cpu.servers import Server, portable
from benchmarks.cpu.summary import host_stages, is_met, noise, slope_per_thousand, summarise_row

RUN = {
    "run": "r1",
    "command": "compare",
    "servers": {},
    "hardware": {"cpu": "one", "cores": 2, "memory_gib": 1.0, "vector_instructions": ["avx2"]},
    "plan": {},
    "load_before": [0.1, 0.1, 0.1],
    "load_after": [0.2, 0.1, 0.1],
    "duration_s": 60.0,
    "versions": {"ours": "1"},
}


def event(delta: dict[str, object], finish: str | None = None) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": delta, "finish_reason": finish}]}).encode() + b"\n\n"


USAGE = (
    b'data: {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 3, '
    b'"prompt_tokens_details": {"cached_tokens": 4}}}\n\ndata: [DONE]\n\n'
)


def test_the_first_token_is_the_first_text_not_the_first_bytes() -> None:
    second = event({"content": "b"})
    arrivals = [
        (1.0, event({"role": "assistant", "content": ""})),
        (2.0, event({"content": "a"}) + second[:7]),
        (3.0, second[7:]),
        (5.0, event({"content": "c"}, "length")),
        (6.0, USAGE),
    ]
    reply = read_reply(0.5, 6.5, arrivals)
    assert (reply.ttft_ms, reply.first_token_s, reply.last_token_s, reply.text) == (1500, 2.0, 5.0, "abc")
    assert (reply.num_prompt_tokens, reply.num_output_tokens, reply.num_cached_tokens) == (9, 3, 4)
    assert reply.decode_tokens_per_s == pytest.approx(2 / 3)


def test_a_token_without_text_counts_when_the_answer_ends() -> None:
    reply = read_reply(0, 3, [(1.0, event({"role": "assistant"})), (2.0, event({}, "length")), (2.5, USAGE)])
    assert (reply.first_token_s, reply.text) == (2.0, "")


@pytest.mark.parametrize("stream", [b"", USAGE, event({"content": "a"}), b'data: {"error": {"message": "no"}}\n\n'])
def test_a_stream_without_a_generation_or_usage_is_a_failure(stream: bytes) -> None:
    with pytest.raises(ServerFailedError):
        read_reply(0, 1, [(0.5, stream)])


def test_prompts_have_the_asked_size_and_part_at_once() -> None:
    sizer = PromptSizer.from_probes((40, 61), (440, 461))
    assert sizer.num_words(1024) + 21 == 1024 + NEW_TOKENS
    one, other = (system_prompt(seed, 50) for seed in ("a", "b"))
    assert len(one.split()) == 50
    assert one == system_prompt("a", 50)
    assert one.split()[:12] != other.split()[:12]


def test_slope_is_least_squares_through_medians_over_cached_tokens() -> None:
    samples = [
        Sample(measure="hit_ttft_ms", server="ours", length=n, value=v, detail={"num_cached_tokens": n})
        for n, values in {1000: (110, 100, 900), 2000: (120, 120, 120), 3000: (150, 140, 130)}.items()
        for v in values
    ]
    assert slope_per_thousand(samples) == pytest.approx(15)  # medians 110, 120, 140


def test_a_hits_host_time_is_cut_at_the_stamps() -> None:
    stamps = [(name, 10.0 + i) for i, name in enumerate(STAGES) if name != "received"]
    times = stage_times_ms(9.5, stamps, 15.25)
    assert list(times) == list(STAGES.values())
    assert list(times.values()) == [500, 1000, 1000, 1000, 1000, 1250]
    with pytest.raises(ValueError, match="stamps of one request"):
        stage_times_ms(9.5, stamps * 2, 15.25)


def test_host_stages_are_shown_by_their_medians_in_order() -> None:
    values = {"tokenise": (1.0, 3.0, 2.0), "schedule": (0.5, 0.5, 9.0)}
    samples = [
        Sample(measure="host_stage_ms", server="ours", value=v, detail={"stage": stage})
        for stage, of_stage in values.items()
        for v in of_stage
    ]
    assert list(host_stages(samples).items()) == [("tokenise", 2.0), ("schedule", 0.5)]


def cold(server: str, *values: float) -> list[Sample]:
    detail = {"num_prompt_tokens": 1044, "num_cached_tokens": 0}
    return [
        Sample(measure="cold_ttft_ms", server=server, length=1024, round=i, value=v, detail=detail)
        for i, v in enumerate(values)
    ]


ROW = Row(name="cold", unit="ms", measure="cold_ttft_ms", length=1024, factor=0.8, against="vllm")


class FakeServer:
    def __init__(self, *times_s: float) -> None:
        self.times_s = iter(times_s)
        self.num_looks = 0

    def cpu_time_s(self) -> float:
        self.num_looks += 1
        return next(self.times_s)


def test_everyone_rests_until_the_servers_together_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LOOK_S", 0)
    polling, idle = FakeServer(1.0, 1.1, 1.2, 1.21, 9), FakeServer(5.0, 5.0, 5.0, 5.0, 9)
    asyncio.run(meter.rest(cast("list[Server]", [polling, idle]), limit_s=60))
    assert polling.num_looks == idle.num_looks == 4


def test_rest_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LOOK_S", 0)
    busy = FakeServer(*range(10))
    asyncio.run(meter.rest(cast("list[Server]", [busy]), limit_s=0))
    assert busy.num_looks == 1


@pytest.mark.parametrize(("ours", "met"), [((90, 80, 10), True), ((81, 80.5, 10), False), ((), None)])
def test_a_row_compares_medians_with_a_share_of_the_peers(ours: tuple[float, ...], met: bool | None) -> None:
    other_length = [Sample(measure="cold_ttft_ms", server="vllm", length=3072, value=1)]
    summary = summarise_row(ROW, [*cold("ours", *ours), *cold("vllm", 100, 300, 90), *other_length], "r1/raw.jsonl")
    assert (summary["vllm"], summary["llamacpp"], summary["aim"], summary["met"]) == (100, None, 80, met)
    assert summary["rule"] == "at most 0.8 x vllm"
    assert summary["samples"]["path"] == "r1/raw.jsonl"
    assert summary["samples"]["where"] == {"measure": "cold_ttft_ms", "length": 1024}
    assert summary["spread"]["vllm"] == {"num": 3, "min": 90, "max": 300}


def test_without_the_peer_nothing_is_met_or_missed() -> None:
    summary = summarise_row(ROW, cold("ours", 5), "raw")
    assert (summary["ours"], summary["aim"], summary["met"]) == (5, None, None)


def test_some_aims_are_floors() -> None:
    hits = next(row for row in AIMED if row.measure == "burst_hits")
    assert (hits.statistic, is_met(hits, 15, 15), is_met(hits, 14, 15)) == ("least", True, False)


def test_noise_counts_disturbed_requests() -> None:
    samples = [Sample(measure="x", server="ours", value=1, detail={"foreign_cores": c}) for c in (0.0, 0.1, 0.1, 1.5)]
    assert noise(samples) == {
        "foreign_cores_median": 0.1,
        "foreign_cores_p90": 0.1,
        "requests_disturbed_percent": 25.0,
    }
    assert noise([]) == {}


def test_published_commands_name_no_folder_of_the_machine() -> None:
    command = "env HOME=/a/b/home /x/bin/python -m anaphora serve /data/m-fp32 --url http://127.0.0.1:8000/v1"
    assert portable(command) == "env HOME=home python -m anaphora serve m-fp32 --url http://127.0.0.1:8000/v1"


def test_summary_and_table_are_made_again_from_a_runs_folder(tmp_path: Path) -> None:
    folder = tmp_path / "r1"
    folder.mkdir()
    recorder = Recorder(folder / "raw.jsonl")
    samples = [*cold("ours", 70), *cold("vllm", 100), Sample(measure="ready_s", server="ours", value=7.5)]
    samples.append(Sample(measure="failure", server="llamacpp", value=1, detail={"error": "gone"}))
    for sample in samples:
        recorder.add(sample)
    (folder / "run.json").write_text(json.dumps(RUN))
    assert read_samples(folder / "raw.jsonl") == samples

    write_summary(folder)

    summary = json.loads((tmp_path / "summary.json").read_text())
    met = {row["name"]: row["met"] for row in summary["rows"]}
    assert met["cold prefill TTFT, 1024 tokens, against vllm"] is True
    assert met["start to ready"] is False
    assert met["decoding, one stream"] is None
    assert summary["failures"] == ["llamacpp: gone"]
    table = (tmp_path / "table.md").read_text()
    assert "| start to ready | s | 7.5 | – | – | 6 (at most 6) | **no** | 7.5–7.5 / – / – |" in table
    assert "FAILED: llamacpp: gone" in table
