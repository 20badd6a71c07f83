"""Probes in Chinese: nothing stays English but names, whatever the server is like."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.lab.probe.figure import steps_figure
from anaphora.lab.probe.report import ProbeReport
from anaphora.lab.report.languages import CHINESE
from anaphora.report.figures import inline_svg
from anaphora.report.language import figure_in
from tests.lab.probe.planted import Blocks, CoreCache, Off, PlantedServer, Slots
from tests.lab.probe.probing import probe_of
from tests.lab.test_language import english_in

SERVERS: dict[str, Callable[[], PlantedServer]] = {
    "lru": lambda: PlantedServer(CoreCache(num_blocks=700, block_size=32)),
    "fifo": lambda: PlantedServer(CoreCache(num_blocks=700, block_size=32, policy="fifo"), shares_keys=True),
    "our own": lambda: PlantedServer(CoreCache(num_blocks=1000, policy="default"), refuses_salt=True),
    "slots": lambda: PlantedServer(Slots(), honours_salt=False),
    "off": lambda: PlantedServer(Off()),
    "by time": lambda: PlantedServer(Blocks(64, capacity=20_000), tells="nothing", noise=0.004),
    "mute": lambda: PlantedServer(Blocks(64), tells="nothing", noise=0.004, has_tokenizer=False),
    "noisy": lambda: PlantedServer(Blocks(64), tells="nothing", noise=1.0),
    "forgetful": lambda: PlantedServer(Blocks(16, retention_s=20)),
    "several": lambda: PlantedServer(Blocks(16), loses=0.4),
    "odd words": lambda: PlantedServer(Blocks(16, num_held_back_blocks=1), tokens_per_word=3),
    "minimum": lambda: PlantedServer(Blocks(128, minimum=1024), tells="metrics", foreign=5),
}


def page_of(server: PlantedServer) -> str:
    probe = probe_of(server, has_other_key=True, max_tokens=100_000)
    asyncio.run(probe.run())
    report = ProbeReport(
        started_at="2026-01-01T00:00:00+00:00",
        command="anaphora",
        target={"kind": "ours", "version": None, "model": "planted"},
        environment={},
        findings=probe.findings,
        log=probe.asker.log,
        num_tokens_sent=1,
        num_foreign_tokens=probe.asker.num_foreign_tokens,
        is_complete=False,
        language=CHINESE,
    )
    return report.page("")


@pytest.mark.parametrize("name", SERVERS)
def test_a_probes_page_has_no_english_sentence(name: str) -> None:
    page = page_of(SERVERS[name]()).replace("HTTP 400: unknown field", "")
    assert '<html lang="zh">' in page
    assert english_in(page.split("<details>")[0]) == []  # what is folded names the probe's own prompts


@pytest.mark.draws
def test_its_figure_has_none_either() -> None:
    probe = probe_of(SERVERS["lru"](), max_tokens=20_000)
    asyncio.run(probe.run())
    figure = steps_figure(probe.asker.log, "Shared and reused: planted")
    assert figure is not None
    figure_in(figure, CHINESE.say)
    assert english_in(inline_svg(figure)) == []


def test_a_dry_run_speaks_chinese_and_another_language_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "probe", "--target", "http://127.0.0.1:9"]
    assert run([*words, "--dry-run", "--lang", "zh"]) == 0
    assert english_in(capsys.readouterr().out) == []
    assert run([*words, "--lang", "fr", "--out", str(tmp_path / "r")]) == 2
    assert "--lang takes en or zh" in capsys.readouterr().err
    assert not (tmp_path / "r").exists()
