"""`anaphora profile` from the command line."""

import shlex
from pathlib import Path

import pytest

from anaphora.cli.main import run


@pytest.fixture(autouse=True)
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANAPHORA_CONFIG", str(tmp_path))
    monkeypatch.delenv("TAOTOKEN_API_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def profile(line: str) -> int:
    return run(["profile", *shlex.split(line)])


@pytest.mark.parametrize(("cached", "asks"), [("0.1", False), ("1", False), ("9", True)])
def test_a_cached_price_above_the_price_of_input_is_asked_about(
    config: Path, capsys: pytest.CaptureFixture[str], cached: str, asks: bool
) -> None:
    prices = f"--price-input 1 --price-cached {cached} --price-output 2"
    assert profile(f"add cloud https://api.example/v1 {prices}") == 0
    assert ("is that right?" in capsys.readouterr().err) is asks


def test_add_show_list_and_remove(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prices = "--price-input 0.15 --price-cached 0.075 --price-output 0.6"
    assert profile(f"add cloud https://api.example/v1 --model gpt --header 'X-Team: blue' {prices}") == 0
    assert capsys.readouterr().out == f"added cloud to {config / 'profiles.toml'}\n"
    assert profile("show cloud") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines() == [
        "base_url = https://api.example/v1",
        "model = gpt",
        "headers.X-Team = •••",
        "prices.input = 0.15",
        "prices.output = 0.6",
        "prices.cached = 0.075",
        "prices.currency = USD",
    ]
    assert profile("list") == 0
    listed = capsys.readouterr().out
    assert "cloud" in listed
    assert "taotoken" in listed
    assert profile("remove cloud") == 0
    assert profile("show cloud") == 2


def test_a_preset_is_where_one_begins(capsys: pytest.CaptureFixture[str]) -> None:
    assert profile("add cloud --preset taotoken --model gpt-4o-mini") == 0
    assert "variable TAOTOKEN_API_KEY is not set at the moment" in capsys.readouterr().err
    assert profile("show cloud") == 0
    shown = capsys.readouterr().out
    assert "base_url_env = TAOTOKEN_BASE_URL" in shown
    assert "api_key_env = TAOTOKEN_API_KEY" in shown
    assert "model = gpt-4o-mini" in shown


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("add cloud", "a profile needs a base URL"),
        ("add cloud --preset other", "no preset is called 'other': there are local, taotoken"),
        ("add 'two words' http://h", "cannot name a profile"),
        ("add cloud not-a-url", "'not-a-url' is no base URL: write it like http://127.0.0.1:8000"),
        ("add cloud 'http://not a url'", "is no base URL"),
        ("add cloud ''", "'' is no base URL"),
        ("add cloud http://h --api-key-env sk-abc-def", "the name of an environment variable is wanted, not the key"),
        ("add cloud http://u:p@h", "the URL holds a user name or password"),
        ("add cloud http://h --price-input 1", "prices need both --price-input and --price-output"),
        ("add cloud http://h --price-input -1 --price-output 1", "price of input tokens must be a number from 0 on"),
        ("add cloud http://h --header X", "--header takes 'NAME: VALUE'"),
        ("add cloud http://h --header 'X-Api-Key: abc'", "looks like one that holds a secret"),
        ("remove cloud", "has no profile 'cloud'"),
    ],
)
def test_mistakes_are_told_in_one_line(line: str, problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert profile(line) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1
    assert "abc" not in said


def test_an_unknown_target_of_a_run_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["bench", "switch", "--target", "clowd", "--out", str(tmp_path / "run")]) == 2
    assert "no profile is called 'clowd'" in capsys.readouterr().err
    assert run(["doctor", "taotoken"]) == 2
    assert "the environment variable TAOTOKEN_API_KEY is not set" in capsys.readouterr().err
