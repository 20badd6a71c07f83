"""Scenarios and a person's own prompts in both arms, on a target whose arithmetic is known."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.errors import ConfigError, TargetError, TraceError
from anaphora.lab.experiments.prompts import PromptsSettings
from anaphora.lab.experiments.scenarios import ScenariosSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.report import write_report
from anaphora.lab.report.base import Findings
from anaphora.lab.report.presentations import answer
from anaphora.lab.report.scenarios import PRESENTATION
from anaphora.lab.results import results_of
from anaphora.lab.workloads.own_prompts import NO_GROUP, read_chats
from anaphora.lab.workloads.scenarios import SCENARIOS
from tests.lab.fake_bench import Listener, bench
from tests.lab.fakes import FakeServing
from tests.lab.test_session import served


def options(**changes: Any) -> BenchOptions:
    return BenchOptions(experiments=(ScenariosSettings(context_tokens=200, requests=4, output_tokens=3, **changes),))


@pytest.mark.parametrize("honours_salt", [True, False])
def test_what_is_shared_is_cached_and_what_is_not_is_not(tmp_path: Path, honours_salt: bool) -> None:
    run, _ = bench(tmp_path, options(), main=FakeServing(honours_salt=honours_salt))
    found = results_of(run)["experiments"]["scenarios"]
    rows = {row["group"]: row for row in found["rows"]}
    assert list(rows) == list(SCENARIOS)
    for name, row in rows.items():
        assert row["num_requests"] == 4
        hit = row["hit_rate_percent"]
        assert hit["usage"] == hit["metrics"] == hit["predicted"]
        if name == "independent":
            assert row["hit_rate_percent_after_first"]["usage"] < 5
            assert abs(row["reduction_percent"]) < 20
        else:
            assert row["hit_rate_percent_after_first"]["usage"] > 30, name
            assert row["saved_ms_paired"]["median"] > 0
            assert row["saved_ms_paired"]["num_pairs"] == 3


@pytest.mark.parametrize(("only", "said"), [(("assistant", "code"), ", and of "), (("assistant",), "cached).")])
def test_what_nothing_came_from_the_cache_of_is_not_said_to_be_changed_by_it(
    tmp_path: Path, only: tuple[str, ...], said: str
) -> None:
    run, _ = bench(tmp_path, options(only=only), main=FakeServing())
    results = results_of(run)
    assert said in answer(results)
    assert "Nothing came" not in answer(results)
    last = results["experiments"]["scenarios"]["rows"][-1]
    last["hit_rate_percent_after_first"]["usage"] = 0.0
    told = answer(results)
    if len(only) > 1:
        assert f"Nothing came from the cache of {only[-1]}." in told
        assert told.count(only[-1]) == 1
    else:
        assert told == "Nothing came from the cache, of no scenario: their times do not differ by caching."


def test_what_explains_a_gap_goes_by_the_servers_own_block_size(tmp_path: Path) -> None:
    run, _ = bench(tmp_path, options(only=("assistant", "code")), main=FakeServing())
    odd = next(n for n, r in enumerate(run.requests) if (r.label, r.arm, r.phase) == ("code", "on", "measured"))
    requests = [*run.requests]
    requests[odd] = replace(requests[odd], predicted_cached_tokens=(requests[odd].predicted_cached_tokens or 0) - 3)
    told = []
    for settings in ({"block_size": "16"}, {"num_slots": 4}):
        header = replace(run.header, target={**run.header.target, "cache_settings": settings})
        results = results_of(replace(run, header=header, requests=tuple(requests)))
        table = PRESENTATION.tables(Findings(results["experiments"]["scenarios"], results))[1]
        told.append({row[0]: row[-1].split(":")[0] for row in table.rows})
    assert told == [
        {"assistant": "they agree", "code": "1 × within one block"},
        {"assistant": "they agree", "code": "1 × more than predicted"},
    ]


def test_a_target_that_refuses_tools_is_asked_everything_else(tmp_path: Path) -> None:
    """vLLM without --enable-auto-tool-choice."""
    listener = Listener()
    run, _ = bench(tmp_path, options(), listener, main=FakeServing(takes_tools=False))
    rows = results_of(run)["experiments"]["scenarios"]["rows"]
    assert [row["group"] for row in rows] == [name for name in SCENARIOS if name != "agents"]
    assert not any(record.error for record in run.requests)
    assert "4 pairs of requests offer tools and are left out, since the target refuses these: HTTP 400: tools" in (
        " ".join(listener.notes)
    )
    with pytest.raises(TargetError, match="takes no tools, and every request of an experiment has some: HTTP 400"):
        bench(tmp_path, options(only=("agents",)), main=FakeServing(takes_tools=False))


def test_the_texts_follow_from_the_seed(tmp_path: Path) -> None:
    plans = []
    for number, seed in enumerate((0, 0, 1)):
        folder = tmp_path / str(number)
        folder.mkdir()
        _, plan = bench(folder, options(text_seed=seed), main=FakeServing())
        plans.append([trial.request.messages for trial in plan.trials])
    assert plans[0] == plans[1] != plans[2]


def test_tools_go_along_and_stand_in_both_arms(tmp_path: Path) -> None:
    _, plan = bench(tmp_path, options(only=("agents",)), main=FakeServing())
    tools = {json.dumps(trial.request.tools) for trial in plan.trials}
    assert len(tools) == 1
    assert "parameters" in tools.pop()


def test_a_scenario_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="no scenario 'rags': --only takes assistant, documents"):
        ScenariosSettings(only=("rags",))


@pytest.mark.draws
def test_failed_requests_are_shown_and_in_no_median(tmp_path: Path) -> None:
    failing = FakeServing(fails=lambda n: "broken" if n in (8, 9) else None)
    bench(tmp_path, options(only=("assistant",)), main=failing)
    results = write_report(tmp_path)
    row = results["experiments"]["scenarios"]["rows"][0]
    assert row["num_failed"] == 2
    assert row["num_measured"] == {"off": 2, "on": 2}
    assert "(2 failed)" in (tmp_path / "report.html").read_text("utf-8")
    assert "of assistant from" in answer(results)
    assert (tmp_path / "figure-scenarios.png").exists()


SHARED = "You are a careful librarian who answers with the shelf and the row of every book. " * 4
ROWS: list[dict[str, Any]] = [
    *(
        {"messages": [{"role": "system", "content": SHARED}, {"role": "user", "content": f"book {n}"}]}
        for n in range(4)
    ),
    {"messages": [{"role": "user", "content": "alone " * 60}]},
    {"custom_id": "a", "group": "batch", "body": {"messages": [{"role": "user", "content": "once " * 60}]}},
    {"custom_id": "b", "group": "batch", "body": {"messages": [{"role": "user", "content": "once " * 60 + "more"}]}},
]


def written(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def test_own_prompts_are_grouped_by_name_or_by_how_they_begin(tmp_path: Path) -> None:
    chats, notes = read_chats(written(tmp_path, ROWS), max_tokens=4, limit=100)
    assert [chat.group for chat in chats] == ["group 1"] * 4 + [NO_GROUP] + ["batch"] * 2
    assert notes == []
    assert len(read_chats(written(tmp_path, ROWS), max_tokens=4, limit=3)[0]) == 3
    assert "the first 3 of 7" in read_chats(written(tmp_path, ROWS), max_tokens=4, limit=3)[1][0]


def test_own_prompts_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path, ROWS), tmp_path / "r"
    with served(FakeServing()) as url:
        assert anaphora(["bench", "prompts", str(path), "--target", url, "--out", str(out)]) == 0
    rows = {
        row["group"]: row
        for row in json.loads((out / "results.json").read_text("utf-8"))["experiments"]["prompts"]["rows"]
    }
    assert rows["group 1"]["hit_rate_percent_after_first"]["usage"] > 50
    assert rows["batch"]["num_requests"] == 2
    assert rows[NO_GROUP]["off_ttft_ms"] is None  # its only request is the first, and in no median
    assert "Your prompts" in capsys.readouterr().out


def test_files_without_texts_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path, [{"token_ids": [1, 2, 3]}, {"token_ids": [1, 2, 4]}])
    with pytest.raises(TraceError):
        read_chats(path, max_tokens=4, limit=10)
    with pytest.raises(TraceError):
        read_chats(tmp_path / "none.jsonl", max_tokens=4, limit=10)


def test_the_command_asks_for_the_same_file_again() -> None:
    settings = PromptsSettings(file="my prompts.jsonl", limit=5)
    assert BenchOptions(experiments=(settings,)).command() == "anaphora bench prompts 'my prompts.jsonl' --limit 5"
