"""Load reports in Chinese: nothing stays English but names, whatever a run met."""

import dataclasses

import pytest

from anaphora.lab.environment import describe
from anaphora.lab.load.analysis import ttft_samples
from anaphora.lab.load.records import Beat, LoadHeader, LoadResumption, LoadRun, StagePrediction
from anaphora.lab.load.report.figures import draw, figure_names
from anaphora.lab.load.report.page import load_page
from anaphora.lab.load.results import results_of
from anaphora.lab.report.languages import CHINESE
from anaphora.report.figures import inline_svg
from anaphora.report.language import figure_in
from anaphora.traces.records import CounterReading
from tests.lab.load.records import MS, S, header, load_record, stage, window
from tests.lab.test_language import PRICES, english_in

SETTINGS = {"prefix_tokens": 100, "num_prefixes": 1, "unique_tokens": 10, "output_tokens": 4, "lang": "zh"}


def head(*stages: object, **settings: object) -> LoadHeader:
    plain = header(*stages, slo={"ttft_ms": 20.0, "tpot_ms": 4.0})  # type: ignore[arg-type]
    return dataclasses.replace(
        plain,
        settings={**plain.settings, **SETTINGS, "trace": "t.jsonl", "shrink": 2, **settings},
        target={**plain.target, "prices": PRICES, "model": "fake-model"},
        environment={
            **plain.environment,
            "processor": describe()["processor"],
            "client_error": {
                "ttft_error_ms": {"1": {"median": 0.1, "p99": 0.2}, "64": {"median": 0.2, "p99": 9.0}},
                "event_error_ms": {"1": {"read_late_percent": 0.0}, "64": {"read_late_percent": 12.5}},
                "streams_per_process": 64,
            },
        },
    )


def closed_run(*, shortfall: int = 0, prediction: str | None = None) -> LoadRun:
    """Both arms at two levels; the on arm's prediction misses by ``shortfall`` or is not made."""
    stages = [stage(number=n, arm=arm, level=level) for n, (level, arm) in enumerate(LEVELS)]
    records = tuple(
        load_record(stage=one.number, client=client, number=25 * client + n, due_ms=25.0 * n, usage=usage(one.arm))
        for one in stages
        for client in range(round(one.level))
        for n in range(120)
    )
    windows = tuple(window(0.5, 2.5, stage=one.number, **counters(60 * one.number)) for one in stages)
    made = tuple(
        StagePrediction(
            stage=one.number,
            reason=prediction,
            block_size=16,
            numbers=() if prediction else tuple(r.number for r in records if r.stage == one.number),
            prompt_tokens=() if prediction else (100,) * sum(r.stage == one.number for r in records),
            cached_tokens=()
            if prediction
            else ((80 if one.arm == "on" else 0) + shortfall,) * sum(r.stage == one.number for r in records),
        )
        for one in stages
    )
    return LoadRun(head(*stages), records, windows, (), made)


LEVELS = ((1.0, "off"), (1.0, "on"), (2.0, "on"), (2.0, "off"))


def usage(arm: str) -> dict[str, object]:
    cached = {"cached_tokens": 80 if arm == "on" else 0}
    return {"prompt_tokens": 100, "completion_tokens": 4, "prompt_tokens_details": cached}


def counters(before: int) -> dict[str, CounterReading]:
    return {
        "counters_before": CounterReading("f", "tokens", before, 0),
        "counters_after": CounterReading("f", "tokens", before + 24_000, 9_600),
    }


def doubtful_run() -> LoadRun:
    """An open loop whose server falls behind and whose client is late, and levels that are refused."""
    good, failed = stage(loop="open", level=100.0), stage(number=1, loop="open", level=50.0, arm="off")
    never, late = stage(number=2, loop="open", level=20.0), stage(number=3, loop="open", level=10.0)
    records = [load_record(due_ms=10.0 * n, late_ms=30.0, ttft_ms=10.0 + 20 * n, max_tokens=9) for n in range(100)]
    records += [load_record(stage=1, due_ms=10.0 * n, num_events=0, error="HTTP 503") for n in range(20)]
    records += [load_record(stage=3, due_ms=10.0 * n, late_ms=90.0) for n in range(20)]
    windows = (
        window(0.2, 0.9, num_due=70, load_until_ns=1),
        window(stage=1),
        window(None, None, stage=2, stopped="3 requests in a row failed, the last with: HTTP 500"),
        window(0.0, 0.2, stage=3, num_due=20),
    )
    beats = tuple(
        Beat(stage=0, process=0, at_ns=round(0.5 * S), worst_lag_ns=80 * MS, cpu_share=0.97, num_open=1) for _ in "ab"
    )
    return LoadRun(head(good, failed, never, late, mechanism_proof=""), tuple(records), windows, beats)


def cut_replay() -> LoadRun:
    one = stage(loop="replay", level=2.0)
    records = tuple(load_record(due_ms=10.0 * n, streamed=n > 3, usage=None) for n in range(40))
    gone = (load_record(due_ms=395.0, error="the run was stopped", abandoned=True),)
    return LoadRun(
        dataclasses.replace(head(one), environment={**head(one).environment, "client_error": None}),
        (*records, *gone),
        (window(0.0, 0.4, num_due=40, stopped="the run was stopped"),),
        (),
        (StagePrediction(stage=0, reason="nothing was predicted in this run", block_size=16),),
        (LoadResumption(started_at="2026-01-01T00:00:00+00:00", stages=(one,)),),
    )


RUNS = {
    "agreeing": closed_run(),
    "apart": closed_run(shortfall=-40),
    "more": closed_run(shortfall=40),
    "unpredicted": closed_run(prediction="the target does not tokenise: give its tokenizer with --tokenizer MODEL"),
    "doubtful": doubtful_run(),
    "cut": cut_replay(),
}


DRAWN = ("agreeing", "doubtful", "cut")
"""One run of each sort of loop: drawing takes its time."""


def chinese_page(name: str) -> str:
    run = RUNS[name]
    results = results_of(run)
    pictures = {}
    for figure in figure_names(results) if name in DRAWN else ():
        drawn = draw(figure, results, ttft_samples(run))
        figure_in(drawn, CHINESE.say)
        pictures[figure] = inline_svg(drawn)
    return load_page(results, pictures, CHINESE).replace("HTTP", "")


@pytest.mark.draws
@pytest.mark.parametrize("name", RUNS)
def test_a_load_report_has_no_english_sentence(name: str) -> None:
    page = chinese_page(name)
    assert '<html lang="zh">' in page
    assert english_in(page) == []
