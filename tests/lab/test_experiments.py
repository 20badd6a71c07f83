"""Both experiments from plan to results on a target with known arithmetic: every figure is exact."""

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.arms import Mechanism
from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import Plan, make_plan
from anaphora.lab.report import write_report
from anaphora.lab.report.gradient import PROMPT_TOKENS_NOTE
from anaphora.lab.report.languages import language_of
from anaphora.lab.report.terminal import print_report
from anaphora.lab.results import results_of
from anaphora.lab.witnesses import told_rate
from anaphora.traces.records import RECORDS_FILE, read_run
from tests.lab.fake_bench import Listener, bench
from tests.lab.fakes import DropsSystem, FakeServing, FakeTarget

SMALL = BenchOptions(
    experiments=(
        SwitchSettings(prefix_tokens=300, output_tokens=4),
        GradientSettings(lengths=(64, 128, 256), repeats=6),
    )
)


def test_the_figures_are_the_fakes_own(tmp_path: Path) -> None:
    run, plan = bench(tmp_path, SMALL, main=FakeServing())
    assert plan.proof.mechanism is Mechanism.SALT
    results = results_of(run)
    switch, gradient = results["experiments"]["switch"], results["experiments"]["gradient"]

    rows = switch["rows"]
    assert [row["phase"] for row in rows] == ["first"] + ["measured"] * 7
    for row in rows:
        n = row["prompt_tokens"]
        assert row["off_ttft_ms"] == 30 + 2 * n
        # 301 words are shared, and a few more by questions that begin alike
        assert row["on_cached_tokens"] in ((0,) if row["index"] == 1 else (288, 304))
        assert row["on_ttft_ms"] == 30 + 2 * (n - row["on_cached_tokens"])
        assert row["on_e2e_ms"] == row["on_ttft_ms"] + 15
    hit = switch["hit_rate_percent"]
    assert hit["usage"] == hit["metrics"] == hit["predicted"]
    cached, total = (sum(row[name] for row in rows) for name in ("on_cached_tokens", "prompt_tokens"))
    assert hit["usage"] == pytest.approx(cached / total * 100, abs=1e-3)
    assert switch["hit_rate_percent_off"] == {"usage": 0.0, "metrics": 0.0, "predicted": 0.0}

    assert [row["prefix_tokens"] for row in gradient["rows"]] == [64, 128, 256]
    for row in gradient["rows"]:
        n = row["prompt_tokens"]
        assert (row["off_ttft_ms"], row["first_request_ttft_ms"]) == (30 + 2 * n, 30 + 2 * n)
        assert row["on_ttft_ms"] == 30 + 2 * (n - (n - 1) // 16 * 16)
        assert row["saved_ms"] == row["off_ttft_ms"] - row["on_ttft_ms"]
        assert row["on_num_requests"] == row["off_num_requests"] == 6
    assert gradient["fit"]["off"]["slope_ms_per_ktoken"] == 2000
    assert gradient["fit"]["off"]["intercept_ms"] == 30
    assert gradient["fit"]["off"]["r2"] == 1
    assert {
        check["name"]: check["status"]
        for check in results["trust"]
        if check["name"] not in ("quiet machine", "client lag")
    } == {
        "complete": "ok",
        "off requests missed": "ok",
        "on requests hit": "ok",
        "witnesses agree": "ok",
        "counters": "ok",
        "equal prompts": "ok",
        "equal answers": "ok",
        "streamed": "ok",
        "warm connections": "ok",
        "enough samples": "ok",
        "no drift": "ok",
        "lines fit": "ok",
        "client error": "unknown",
    }


@pytest.mark.parametrize("run_id", ["r1", "r2", "r3"])
@pytest.mark.parametrize("honours_salt", [True, False])
def test_beginnings_that_are_shared_by_chance_are_predicted_too(
    tmp_path: Path, run_id: str, honours_salt: bool
) -> None:
    """A block of two tokens holds one word that is chosen at random: warm-ups, proofs and trials of different prompts
    often share it."""
    small_blocks = FakeServing(block_size=2, honours_salt=honours_salt)
    run, plan = bench(tmp_path, SMALL, run_id=run_id, main=small_blocks)
    assert plan.proof.mechanism is (Mechanism.SALT if honours_salt else Mechanism.NONCE)
    assert len(run.requests) == len(plan.warmups) + len(plan.trials)
    for record in run.requests:
        assert record.usage is not None
        assert record.usage["prompt_tokens_details"]["cached_tokens"] == record.predicted_cached_tokens


@pytest.mark.parametrize("max_model_len", [8192, 256, 160])
def test_warm_ups_fit_the_context(tmp_path: Path, max_model_len: int) -> None:
    """One that is refused leaves nothing behind, though it would be predicted to."""
    small_context = FakeServing(block_size=2, max_model_len=max_model_len)
    options = BenchOptions(experiments=(GradientSettings(lengths=(16, 24, 32), repeats=6),), arms="nonce")
    run, plan = bench(tmp_path, options, main=small_context)
    assert [record.error for record in run.requests] == [None] * len(run.requests)
    lengths = [len(small_context.words(warmup.request.messages)) for warmup in plan.warmups]
    assert lengths[0] <= lengths[1] < max_model_len


def test_arms_take_turns_and_every_off_request_has_a_salt_of_its_own(tmp_path: Path) -> None:
    run, plan = bench(tmp_path, SMALL, main=FakeServing())
    salts = [trial.request.cache_salt for trial in plan.trials if trial.arm == "off"]
    assert len(set(salts)) == len(salts) == 8 + 3 * 6
    assert {trial.request.cache_salt for trial in plan.trials if trial.arm == "on"} == {"r1.on"}
    arms = [trial.arm for trial in plan.trials if trial.experiment == "switch"]
    pairs = list(zip(arms[::2], arms[1::2], strict=True))
    assert {frozenset(pair) for pair in pairs} == {frozenset({"on", "off"})}
    assert len(set(pairs)) == 2  # not always the same arm first
    assert [r.index for r in run.requests if r.experiment == "switch" and r.arm == "on"] == list(range(1, 9))


def test_prompts_are_new_in_every_run_and_warm_up_uses_others(tmp_path: Path) -> None:
    _, plan = bench(tmp_path, SMALL, main=FakeServing())
    beginnings = {
        (trial.experiment, trial.group, trial.index if trial.phase == "warmup" else 0): trial.request.messages[0][
            "content"
        ].splitlines()[0]
        for trial in [*plan.warmups, *plan.trials]
    }
    assert len(set(beginnings.values())) == len(beginnings) == 2 + 1 + 3


def test_two_servers_run_in_blocks_on_off_off_on(tmp_path: Path) -> None:
    options = BenchOptions(
        experiments=(
            SwitchSettings(prefix_tokens=100, output_tokens=2, num_questions=4),
            GradientSettings(lengths=(64, 128), repeats=3),
        ),
        arms="flag",
    )
    on, off = FakeServing(), FakeServing(caching=False)
    run, _ = bench(tmp_path, options, on=on, off=off)
    order = [(r.arm, r.index) for r in run.requests if r.experiment == "switch"]
    assert order == [("on", 1), ("on", 2), ("off", 1), ("off", 2), ("off", 3), ("off", 4), ("on", 3), ("on", 4)]
    lengths = [(r.arm, r.group, r.index) for r in run.requests if r.experiment == "gradient"]
    assert lengths[:4] == [("on", 64, 0), ("on", 64, 1), ("on", 128, 0), ("on", 128, 1)]
    assert lengths[4:6] == [("off", 64, 1), ("off", 128, 1)]
    assert {(r.arm, r.server) for r in run.requests} == {("on", "on"), ("off", "off")}
    assert on.salts == [None] * len(on.salts)
    results = results_of(run)
    switch = results["experiments"]["switch"]
    assert switch["hit_rate_percent"]["usage"] == switch["hit_rate_percent"]["predicted"]
    # off is not zero: the counters of a server without caching stand still, and nothing was looked up
    assert switch["hit_rate_percent_off"]["metrics"] is None
    assert switch["on"]["ttft_ms_median"] < switch["off"]["ttft_ms_median"]


@pytest.mark.parametrize(
    ("serving", "reason"),
    [
        (FakeServing(honours_salt=False), "cache_salt is ignored"),
        (FakeServing(shows_cached=False, has_metrics=False), "does not tell its cached tokens"),
        (FakeServing(caching=False), "prefix caching seems to be off"),
    ],
)
def test_without_a_salt_that_works_words_in_front_make_a_request_miss(
    tmp_path: Path, serving: FakeServing, reason: str
) -> None:
    run, plan = bench(tmp_path, SMALL, main=serving)
    assert plan.proof.mechanism is Mechanism.NONCE
    assert reason in plan.proof.seen
    assert {trial.request.cache_salt for trial in plan.trials} == {None}
    fronts = [t.request.messages[0]["content"].splitlines()[0] for t in plan.trials if t.arm == "off"]
    assert len(set(fronts)) == len(fronts)
    lengths = {(r.experiment, r.group, r.index): set[int | None]() for r in run.requests}
    for record in run.requests:
        lengths[record.experiment, record.group, record.index].add(record.num_prompt_tokens)
    assert all(len(counts) == 1 for key, counts in lengths.items() if key[0] != "warmup")
    with pytest.raises(TargetError, match="--arms salt cannot be used"):
        asyncio.run(_plan(BenchOptions(experiments=SMALL.experiments, arms="salt"), serving))


async def _plan(
    options: BenchOptions, serving: FakeServing, max_model_len: int | None = None
) -> tuple[Plan, list[str]]:
    target, notes = FakeTarget(serving), list[str]()
    return await make_plan(options, target, target, run_id="r", max_model_len=max_model_len, note=notes.append), notes


def test_a_caching_that_does_nothing_is_reported_with_its_sign(tmp_path: Path) -> None:
    slower_when_on = FakeServing(caching=False)
    _, plan = bench(tmp_path, SMALL, main=slower_when_on)
    arms = [trial.arm for trial in plan.trials]
    slower_when_on.jitter = lambda n: 20.0 if n > 5 and arms[(n - 6) % len(arms)] == "on" else 0.0
    (tmp_path / "again").mkdir()
    slower_when_on.num_requests = 0
    results = results_of(bench(tmp_path / "again", SMALL, main=slower_when_on)[0])
    reduction = results["experiments"]["switch"]["reduction_percent"]["ttft"]
    assert -6 < reduction < 0
    assert results["experiments"]["switch"]["hit_rate_percent"]["usage"] == 0
    assert {c["name"]: c["status"] for c in results["trust"]}["on requests hit"] == "warning"


@pytest.mark.parametrize(("lang", "said"), [("en", "Nothing came from the cache: "), ("zh", "没有任何内容来自缓存")])
def test_a_difference_without_hits_is_not_called_caching(tmp_path: Path, lang: str, said: str) -> None:
    """As where the chat template drops what prompts share: there the arms can differ by chance alone."""
    switch = SwitchSettings(prefix_tokens=300, output_tokens=4)
    options = BenchOptions(experiments=(switch,), arms="nonce", lang=lang)
    bench(tmp_path, options, main=DropsSystem(jitter=lambda n: n * 7 % 5))
    results = write_report(tmp_path, language_of(lang))
    console = Console(file=io.StringIO(), width=300)
    print_report(results, console, language_of(lang))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert said in shown
    assert "caching changed" not in shown
    [hit] = [check for check in results["trust"] if check["name"] == "on requests hit"]
    assert hit["status"] == "warning"
    assert "no request was expected to hit" in hit["seen"]


def test_what_is_unknown_stays_unknown(tmp_path: Path) -> None:
    silent = FakeServing(shows_cached=False, has_metrics=False, has_tokenizer=False)
    run, plan = bench(tmp_path, SMALL, main=silent)
    assert not plan.exact_lengths
    results = results_of(run)
    for experiment in results["experiments"].values():
        assert experiment["hit_rate_percent"] == {"usage": None, "metrics": None, "predicted": None}
    statuses = {check["name"]: check["status"] for check in results["trust"]}
    assert statuses["off requests missed"] == statuses["on requests hit"] == statuses["witnesses agree"] == "unknown"
    assert results["experiments"]["switch"]["reduction_percent"]["ttft"] > 50


def test_counters_stand_in_for_answers_that_hide_their_cached_tokens(tmp_path: Path) -> None:
    """vLLM as it is started without --enable-prompt-tokens-details."""
    run, plan = bench(tmp_path, SMALL, main=FakeServing(shows_cached=False))
    assert plan.proof.mechanism is Mechanism.SALT
    results = results_of(run)
    switch = results["experiments"]["switch"]
    assert switch["hit_rate_percent_after_first"]["usage"] is None
    assert all(row["on_cached_tokens"] for row in switch["rows"][1:])
    statuses = {check["name"]: check["status"] for check in results["trust"]}
    assert statuses["off requests missed"] == statuses["on requests hit"] == statuses["witnesses agree"] == "ok"
    hit = told_rate(switch["hit_rate_percent_after_first"])
    assert hit is not None
    assert f"with {hit:.1f}% of the prompt tokens" in (
        write_report(tmp_path) and (tmp_path / "report.html").read_text("utf-8")
    )


def test_failed_requests_are_counted_and_in_no_statistic(tmp_path: Path) -> None:
    failing = FakeServing(fails=lambda n: "out of order" if n in (9, 13) else None)
    run, _ = bench(tmp_path, SMALL, main=failing)
    results = results_of(run)
    switch = results["experiments"]["switch"]
    assert switch["on"]["num_failed"] + switch["off"]["num_failed"] == 2
    assert [error["error"] for error in results["errors"]] == ["out of order"] * 2
    assert sum(row["off_ttft_ms"] is None or row["on_ttft_ms"] is None for row in switch["rows"]) == 2
    assert min(switch["off"]["ttft_ms_median"], switch["on"]["ttft_ms_median"]) > 30
    assert results["trust"][0]["status"] == "warning"


@pytest.mark.draws
def test_three_failures_in_a_row_end_the_run_and_keep_what_was_measured(tmp_path: Path) -> None:
    listener = Listener()
    with pytest.raises(TargetError, match="3 requests in a row failed, the last with: gone"):
        bench(tmp_path, SMALL, listener, main=FakeServing(fails=lambda n: "gone" if n > 20 else None))
    run = read_run(tmp_path)
    assert len(listener.records) == len(run.requests) == 20  # three requests went into the proof of the salt
    results = write_report(tmp_path)
    assert results["trust"][0]["seen"] == "18 of 55 planned requests were sent, 3 of them failed"
    assert results["experiments"]["switch"]["reduction_percent"]["ttft"] > 50
    assert results["experiments"]["gradient"]["rows"][0]["off_ttft_ms"] is None
    assert results["experiments"]["gradient"]["fit"] == {"off": None, "on": None, "saved": None}


def test_a_target_that_refuses_everything_is_told_at_once(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="refused a first request: quota used up"):
        bench(tmp_path, SMALL, main=FakeServing(fails=lambda n: "quota used up"))


def test_lengths_beyond_the_context_are_left_out_aloud() -> None:
    switch, gradient = SwitchSettings(prefix_tokens=200, output_tokens=8), GradientSettings(lengths=(64, 256, 1024))
    options = BenchOptions(experiments=(switch, gradient))
    plan, notes = asyncio.run(_plan(options, FakeServing(), max_model_len=512))
    assert {trial.group for trial in plan.trials if trial.experiment == "gradient"} == {64, 256}
    assert "a prefix of 1024 tokens does not fit the context of 512: left out" in notes
    with pytest.raises(ConfigError, match="does not fit the context of 256"):
        asyncio.run(_plan(options, FakeServing(), max_model_len=256))
    with pytest.raises(ConfigError, match="no prefix length fits"):
        asyncio.run(_plan(BenchOptions(experiments=(GradientSettings(),)), FakeServing(), max_model_len=300))


def test_the_estimate_follows_the_warm_ups_pace(tmp_path: Path) -> None:
    listener = Listener()
    run, plan = bench(tmp_path, SMALL, listener, main=FakeServing())
    assert listener.costs_s is not None
    measured = [r for r in run.requests if r.phase != "warmup"]
    real = sum(r.end_ns - r.sent_ns for r in measured) / 1e9
    assert sum(listener.costs_s) == pytest.approx(real, rel=0.35)
    assert listener.trials == plan.trials


@pytest.mark.draws
def test_a_report_is_made_again_bit_for_bit(tmp_path: Path) -> None:
    bench(tmp_path, SMALL, main=FakeServing(jitter=lambda n: n * 7 % 11))
    printed = Console(file=io.StringIO(), width=160)
    print_report(write_report(tmp_path), printed)
    assert isinstance(printed.file, io.StringIO)
    assert PROMPT_TOKENS_NOTE in printed.file.getvalue().splitlines()
    assert f'<p class="note">{PROMPT_TOKENS_NOTE}</p>' in (tmp_path / "report.html").read_text("utf-8")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert {"results.json", "table.csv", "switch.csv", "report.html", "figure-a-ttft.svg"} <= before.keys()
    for path in tmp_path.iterdir():
        if path.name != RECORDS_FILE:
            path.unlink()
    write_report(tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    results: Any = json.loads(before["results.json"])
    table = before["table.csv"].decode().splitlines()
    assert table[0] == "prompt_tokens,off_ttft_ms,on_ttft_ms,saved_ms,reduction_percent"
    assert len(table) == 1 + len(results["experiments"]["gradient"]["rows"])
