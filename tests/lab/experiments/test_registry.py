"""Every experiment is known everywhere, and runs of earlier releases stay readable."""

import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.bench import EXPERIMENTS as COMMANDS
from anaphora.cli.main import run
from anaphora.lab.experiments.base import stored_settings
from anaphora.lab.experiments.registry import EXPERIMENTS
from anaphora.lab.report.presentations import PRESENTATIONS, answer, tables_of
from anaphora.lab.results import results_of
from anaphora.traces.records import read_run

KEPT = Path(__file__).parents[3] / "benchmarks" / "results" / "first-light"


def test_an_experiment_has_a_command_and_a_presentation() -> None:
    assert EXPERIMENTS.keys() == PRESENTATIONS.keys() == COMMANDS.keys()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_is_named_once_and_asks_one_question(name: str) -> None:
    experiment = EXPERIMENTS[name]
    assert experiment.name == name
    assert PRESENTATIONS[name].question.endswith("?")


def test_a_kept_run_of_an_earlier_release_gives_the_same_results() -> None:
    again = json.loads(json.dumps(results_of(read_run(KEPT))))
    kept = json.loads((KEPT / "results.json").read_text("utf-8"))
    assert again["run"] == kept["run"]
    for name, experiment in kept["experiments"].items():
        assert _holds(again["experiments"][name], experiment)
    seen = {check["name"]: check["seen"] for check in again["trust"]}
    assert {check["name"] for check in kept["trust"]} <= seen.keys()
    assert "Behind a shared system prompt of 1,500 tokens" in answer(again)
    assert [table.title for table in tables_of(again)][:1] == ["Experiment 1: prefix caching on and off"]


def _holds(new: Any, old: Any) -> bool:
    """Whether ``new`` says all that ``old`` says; intervals may be made by a better method since, and cells, which have
    names, be told in another order."""
    if isinstance(old, dict):
        return all(key.endswith("interval") or (key in new and _holds(new[key], old[key])) for key in old)
    if isinstance(old, list):
        if all(isinstance(row, dict) and "cell" in row for row in [*new, *old]):
            new, old = ({row["cell"]: row for row in rows} for rows in (new, old))
            return _holds(new, old)
        return len(new) == len(old) and all(map(_holds, new, old))
    return bool(new == old)


def test_settings_are_read_from_old_and_new_headers() -> None:
    old = {"experiments": ["switch"], "prefix_tokens": 5}
    new = {"experiments": {"switch": {"prefix_tokens": 5}}}
    assert stored_settings(old, "switch")["prefix_tokens"] == stored_settings(new, "switch")["prefix_tokens"] == 5


def test_a_sub_command_shows_only_its_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    shown = {}
    for name in ("switch", "gradient", "all"):
        assert run(["bench", name, "--help"]) == 0
        shown[name] = capsys.readouterr().out
        assert "--target" in shown[name]
    assert "--lengths" not in shown["switch"]
    assert "--questions" not in shown["gradient"]
    assert "--lengths" in shown["all"]
    assert "--questions" in shown["all"]
    assert run(["bench", "switch", "--lengths", "64"]) == 2
    assert "No such option: --lengths" in capsys.readouterr().err
