"""Progress on a terminal and elsewhere."""

import io

import pytest
from rich.console import Console

from anaphora.lab.arms import Trial
from anaphora.lab.progress import Progress, describe, estimate
from anaphora.lab.targets.base import ChatRequest
from tests.lab.records import record

TRIAL = Trial(
    experiment="switch",
    arm="on",
    phase="measured",
    group=100,
    index=2,
    label="why?",
    request=ChatRequest(messages=(), max_tokens=4),
)


def shown(*, terminal: bool, costs_s: list[float] | None) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=160, color_system=None)
    with Progress(console) as progress:
        progress.waiting("the server is starting")
        progress.waiting("the server is starting")
        progress.note("[bold]as it is[/bold]")
        progress.measured(record(phase="warmup"))
        progress.planned([TRIAL] * 3, costs_s)
        progress.measured(record(ttft_ms=12.5, e2e_ms=30))
        progress.measured(record(error="gone"))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("costs_s", [[40.0, 40.0, 45.0], None])
def test_elsewhere_every_request_is_a_line_and_waiting_is_said_once(costs_s: list[float] | None) -> None:
    lines = shown(terminal=False, costs_s=costs_s).splitlines()
    estimate = "" if costs_s is None else "; about 2 min 05 s at the pace of the warm-up, or a little more"
    assert lines == [
        "· the server is starting",
        "· [bold]as it is[/bold]",
        "· warming up",
        f"· 3 requests to measure{estimate}",
        "· 1/3  switch 100 on  2: TTFT 12.5 ms, E2E 30.0 ms, 96 tokens cached",
        "· 2/3  switch 100 on  2: failed: gone",
    ]


def test_on_a_terminal_a_bar_shows_the_current_estimate_and_only_failures_stay() -> None:
    text = shown(terminal=True, costs_s=[40.0, 40.0, 45.0])
    assert "2/3" in text
    assert "left" in text
    assert "· 2/3  switch 100 on  2: failed: gone" in text
    assert "· 1/3" not in text


def test_what_was_not_measured_is_no_number() -> None:
    assert describe(record(ttft_ms=None, usage=None)) == "switch 100 on  2: TTFT – ms, E2E 20.0 ms"


def test_the_estimate_so_far_has_both_arms_and_its_sign() -> None:
    off = [record(arm="off", ttft_ms=time) for time in (90.0, 110.0, None)]
    first = record(ttft_ms=500.0, phase="first")
    assert estimate(off) == estimate([]) == ""
    assert estimate([*off, first, record(ttft_ms=25.0)]) == "so far 100.0 → 25.0 ms (−75.0%)"
    assert estimate([*off, record(ttft_ms=120.0)]) == "so far 100.0 → 120.0 ms (+20.0%)"
    assert estimate([*off, record(error="gone", ttft_ms=1.0)]) == ""
