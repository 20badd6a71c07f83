"""A dry run plans as the run does, and sends nothing."""

import asyncio
from pathlib import Path

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.lab.dry_run import plan_dry
from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.money import Prices
from anaphora.lab.options import BenchOptions
from anaphora.report.tables import Table
from tests.lab.fakes import FakeServing, FakeTarget
from tests.lab.test_session import FEW, served

OPTIONS = BenchOptions(
    experiments=(
        SwitchSettings(prefix_tokens=100, num_questions=3, output_tokens=4),
        GradientSettings(lengths=(64, 128), repeats=2),
    )
)


def planned(serving: FakeServing, prices: Prices | None = None) -> Table:
    table = asyncio.run(plan_dry(OPTIONS, FakeTarget(serving), 8192, lambda _: None, prices))
    assert serving.num_requests == 0
    return table


def test_requests_and_tokens_are_those_of_the_plan() -> None:
    table = planned(FakeServing())
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["switch", "on"][0] == rows["switch", "off"][0] == "3"
    assert rows["gradient", "on"][0] == "6"
    assert rows["gradient", "off"][0] == "4"
    assert rows["switch", "off"][3] == "12"
    assert int(rows["switch", "on"][2]) >= 2 * 96
    assert rows["all", ""][0] == "16"
    assert "estimated" not in table.note


def test_without_a_tokenizer_tokens_are_estimated_aloud_and_hits_unknown() -> None:
    table = planned(FakeServing(has_tokenizer=False))
    assert {row[4] for row in table.rows} == {"unknown"}
    assert all(int(row[3].replace(",", "")) > 0 for row in table.rows)
    assert "estimated at four characters a token" in table.note


def test_the_price_is_that_of_the_tokens_in_the_last_row() -> None:
    prices = Prices(input=3.0, cached=1.0, output=10.0, currency="EUR")
    known, unknown = planned(FakeServing(), prices), planned(FakeServing(has_tokenizer=False), prices)
    prompt, cached, output = (int(cell.replace(",", "")) for cell in known.rows[-1][3:])
    most = ((prompt - cached) * 3 + cached * 1 + output * 10) / 1e6
    assert f"at most {most:.4g} EUR, with these tokens from the cache" in known.note
    assert "EUR, if nothing is cached" in unknown.note
    assert "price" not in planned(FakeServing()).note


@pytest.mark.parametrize("option", [["--dry-run"], ["--resume", "."]])
def test_two_targets_are_neither_planned_nor_gone_on_with_together(
    option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert anaphora(["bench", "switch", "--target", "http://localhost:1", "--compare", "local", *option]) == 2
    assert "--compare measures two targets" in capsys.readouterr().err


def test_from_the_command_line_nothing_is_sent_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    serving = FakeServing()
    with served(serving) as url:
        assert anaphora(["bench", "all", "--target", url, "--dry-run", *FEW]) == 0
    assert serving.num_requests == 0
    assert "Dry run: what would be sent" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
