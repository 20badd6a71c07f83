"""The gate's small language: what it reads, what it refuses, and when it closes."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.cli.main import run as command
from anaphora.errors import ConfigError
from anaphora.lab.comparison.compare import compare, judge
from anaphora.lab.comparison.conditions import Condition
from anaphora.traces.records import RECORDS_FILE, RecordWriter, Run
from tests.lab.comparison.runs import gradient_run


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("ttft_on_p50 > +5%", ("ttft_on_p50", ">", 5, "%")),
        ("ttft_on_p50>+5%", ("ttft_on_p50", ">", 5, "%")),
        ("  gradient.2048.ttft_on_p50 < -3.5 ms ", ("gradient.2048.ttft_on_p50", "<", -3.5, "ms")),
        ("hit_rate_on < −2pp", ("hit_rate_on", "<", -2, "pp")),
        ("slope_on > 0%", ("slope_on", ">", 0, "%")),
    ],
)
def test_conditions_are_read(text: str, read: tuple[str, str, float, str]) -> None:
    condition = Condition.parse(text)
    assert (condition.name, condition.sense, condition.limit, condition.unit) == read


@pytest.mark.parametrize(
    "text", ["", "ttft", "ttft > 5", "ttft > 5%", "ttft >= +5%", "> +5%", "ttft > +5 s", "a b > +5%"]
)
def test_what_is_no_condition_is_refused_with_the_form(text: str) -> None:
    with pytest.raises(ConfigError, match="write NAME > \\+5% or NAME < -3ms"):
        Condition.parse(text)


@given(st.text(max_size=30), st.sampled_from(["", "ttft > ", "ttft < +1"]))
def test_any_text_is_read_or_refused(text: str, head: str) -> None:
    with contextlib.suppress(ConfigError):
        assert Condition.parse(head + text).unit in ("%", "pp", "ms")


def met(text: str, a: Run, b: Run) -> tuple[str, ...]:
    (verdict,) = judge(compare(a, b), [Condition.parse(text)])
    return verdict.met_by


def test_a_gate_closes_on_a_change_beyond_its_limit_that_is_more_than_chance() -> None:
    a, slower = gradient_run(seed=1, noise=0.01), gradient_run(seed=2, noise=0.01, factor=1.2)
    assert met("ttft_on_p50 > +5%", a, slower) == tuple(f"gradient.{n}.ttft_on_p50" for n in (100, 200, 400))
    assert met("gradient.ttft_on_p50 > +5%", a, slower) == met("ttft_on_p50 > +5%", a, slower)
    assert met("gradient.200.ttft_on_p50 > +5%", a, slower) == ("gradient.200.ttft_on_p50",)
    assert met("ttft_on_p50 > +50%", a, slower) == ()
    assert met("ttft_on_p50 < -5%", a, slower) == ()
    assert met("ttft_off_p50 > +5%", a, slower) == ()
    assert met("200.ttft_on_p50 > +1ms", a, slower) == ("gradient.200.ttft_on_p50",)
    assert met("ttft_reduction < -1pp", a, slower)
    assert met("slope_on > +5%", a, slower) == ("gradient.slope_on",)


def test_a_gate_stays_open_when_chance_explains_a_change() -> None:
    a, noisy = gradient_run(seed=1, noise=0.5), gradient_run(seed=2, noise=0.5)
    beyond = [one for one in compare(a, noisy).differences if one.is_chance and abs(one.relative_percent or 0) > 5]
    assert beyond
    for one in beyond:
        assert met(f"{one.full_name} > +5%", a, noisy) == met(f"{one.full_name} < -5%", a, noisy) == ()


def test_what_cannot_be_judged_is_no_open_gate() -> None:
    a, b = gradient_run(seed=1), gradient_run(seed=2, repeats=3)
    with pytest.raises(ConfigError, match=r"cannot be judged for gradient.100.ttft_on_p50: too few samples"):
        met("ttft_on_p50 > +5%", a, b)
    with pytest.raises(
        ConfigError, match=r"ttftt was not measured in both runs; known are ttft_off_p50, .*, in gradient.100"
    ):
        met("ttftt > +5%", a, b)
    with pytest.raises(ConfigError, match=r"hit_rate_on is in %, so its limit takes pp"):
        met("hit_rate_on < -5%", a, b)
    with pytest.raises(ConfigError, match=r"slope_on is in ms/1000 tokens, so its limit takes %"):
        met("slope_on > +5ms", a, b)


def saved(folder: Path, run: Run) -> str:
    folder.mkdir()
    with RecordWriter(folder / RECORDS_FILE) as writer:
        writer.begin(run.header)
        for request in run.requests:
            writer.append(request)
    return str(folder)


def test_the_command_and_its_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = saved(tmp_path / "a", gradient_run(seed=1)), saved(tmp_path / "b", gradient_run(seed=2, factor=1.2))
    assert command(["compare", a, b]) == 0
    assert command(["compare", a, b, "--fail-if", "ttft_on_p50 > +50%"]) == 0
    assert "ttft_on_p50 > +50%: passed" in capsys.readouterr().out
    assert command(["compare", a, b, "--fail-if", "ttft_off_p50 > +5%", "--fail-if", "ttft_on_p50 > +5%"]) == 1
    out = capsys.readouterr().out
    assert "ttft_off_p50 > +5%: passed" in out
    assert "ttft_on_p50 > +5%: failed by gradient.100.ttft_on_p50, gradient.200.ttft_on_p50" in out
    assert command(["compare", a, b, "--json"]) == 0
    assert '"is_chance": false' in capsys.readouterr().out
    assert command(["compare", a, b, "--fail-if", "nonsense"]) == 2
    assert command(["compare", a, str(tmp_path / "none")]) == 2
    assert "give a report folder" in capsys.readouterr().err
