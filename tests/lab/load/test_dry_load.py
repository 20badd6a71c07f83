"""A dry run of a load plans as the run does, and sends nothing."""

import asyncio
import json
from pathlib import Path

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.lab.load import dry_run as planning
from anaphora.lab.load.dry_run import dry_run
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.money import Prices
from anaphora.lab.options import BenchOptions
from anaphora.report.tables import Table
from tests.lab.fakes import FakeServing, FakeTarget
from tests.lab.test_session import served

PRICES = Prices(input=3.0, cached=1.0, output=10.0, currency="EUR")
SMALL = {"prefix_tokens": 64, "unique_tokens": 24, "output_tokens": 3, "warmup_s": 1.0, "duration_s": 2.0}


def planned(
    monkeypatch: pytest.MonkeyPatch, settings: LoadSettings, serving: FakeServing, prices: Prices | None = None
) -> Table:
    async def target(*_: object) -> tuple[FakeTarget, int, Prices | None]:
        return FakeTarget(serving), 8192, prices

    monkeypatch.setattr(planning, "dry_target", target)
    table = asyncio.run(dry_run(BenchOptions(experiments=()), settings, lambda text: None))
    assert serving.num_requests == 0
    return table


def test_an_open_loops_requests_are_those_of_its_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    table = planned(monkeypatch, LoadSettings(rate=(10.0, 20.0), **SMALL), FakeServing(), PRICES)  # type: ignore[arg-type]
    on, off, *_, whole = table.rows
    assert on[:3] == ("10 requests/s", "on", "3")
    assert on[3] == off[3]
    num, prompt, cached, output = (int(cell.replace(",", "")) for cell in on[3:])
    assert output == 3 * num
    assert cached == (num - 1) * 64
    assert off[5] == "0"
    assert int(whole[3].replace(",", "")) == sum(int(row[3]) for row in table.rows[:-1])
    total, hits, out = (int(cell.replace(",", "")) for cell in whole[4:])
    assert f"at most {((total - hits) * 3 + hits + out * 10) / 1e6:,.4g} EUR" in table.note
    assert "4 stages take at most about 12 s" in table.note
    assert prompt > cached


def test_a_closed_loops_number_of_requests_is_not_guessed_but_a_requests_price_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = planned(monkeypatch, LoadSettings(concurrency=(1, 4), **SMALL), FakeServing(), PRICES)  # type: ignore[arg-type]
    assert {row[3] for row in table.rows} == {"unknown"}
    assert "1000 of them cost at most" in table.note
    limited = planned(monkeypatch, LoadSettings(concurrency=(1, 4), num_requests=9, **SMALL), FakeServing())  # type: ignore[arg-type]
    assert [row[3] for row in limited.rows] == ["11", "11", "17", "17", "56"]


def test_without_a_tokenizer_hits_are_unknown_and_lengths_estimated_aloud(monkeypatch: pytest.MonkeyPatch) -> None:
    table = planned(monkeypatch, LoadSettings(rate=(10.0,), **SMALL), FakeServing(has_tokenizer=False), PRICES)  # type: ignore[arg-type]
    assert {row[5] for row in table.rows} == {"unknown"}
    assert "estimated at four characters a token" in table.note
    assert "if nothing is cached" in table.note


def test_a_replays_shared_blocks_are_reckoned_from_its_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [
        {"timestamp": 60 * n, "input_length": 2 * 512 + 128, "output_length": 32, "hash_ids": [0, 1, 2 + n]}
        for n in range(10)
    ]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = LoadSettings(trace=str(path), shrink=16, warmup_s=0.0, duration_s=1.0)
    on = planned(monkeypatch, settings, FakeServing()).rows[0]
    assert on[3:] == ("10", "720", str(9 * 64), "20")
    texts = tmp_path / "texts.jsonl"
    texts.write_text(json.dumps({"timestamp": 0, "messages": [{"role": "user", "content": "a b"}]}) + "\n")
    on = planned(monkeypatch, LoadSettings(trace=str(texts), warmup_s=0.0), FakeServing(has_tokenizer=False)).rows[0]
    assert on[3] == "1"
    assert on[5] == "unknown"


def test_from_the_command_line_nothing_is_sent_and_nothing_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    serving = FakeServing()
    with served(serving) as url:
        assert anaphora(["bench", "load", "--target", url, "--dry-run", "--lang", "zh"]) == 0
    assert serving.num_requests == 0
    assert "预演:会发送什么" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
