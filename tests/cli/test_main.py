"""The command line as a whole: help at once, every mistake one line and exit code 2."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer

from anaphora import __version__
from anaphora.cli import main as cli
from anaphora.errors import ConfigError

HEAVY = (
    "torch",
    "fastapi",
    "starlette",
    "uvicorn",
    "matplotlib",
    "aiohttp",
    "numpy",
    "scipy",
    "transformers",
)


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys; from anaphora.cli.main import run; codes = [run([*verb, '--help']) for verb in ([], ['serve'])]; "
        f"print(codes, [m for m in {HEAVY!r} if m in sys.modules], file=sys.stderr)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stderr == "[0, 0] []\n"
    assert "--no-enable-prefix-caching" in shown.stdout


@pytest.mark.parametrize("verb", cli.VERBS)
def test_every_verb_has_help(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([verb, "--help"]) == 0
    assert f"anaphora {verb}" in capsys.readouterr().out


def test_no_arguments_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 0
    shown = capsys.readouterr().out
    assert all(verb in shown for verb in cli.VERBS)


@pytest.mark.parametrize("group", ["bench", "profile"])
def test_a_group_without_a_command_shows_its_help_and_no_empty_error(
    group: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run([group]) == 2
    printed = capsys.readouterr()
    assert f"anaphora {group}" in printed.out + printed.err
    assert "error:" not in printed.err


@pytest.mark.parametrize(("code", "leaves"), [(130, True), (0, False), (2, False)])
def test_an_interrupted_command_does_not_wait_for_its_threads(
    code: int, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that loads a library when the interpreter ends would abort the process."""
    left: list[int] = []
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    monkeypatch.setattr(cli, "run", lambda argv: code)
    monkeypatch.setattr(os, "_exit", left.append)
    try:
        with pytest.raises(SystemExit) as end:
            cli.main([])
    finally:
        done.set()
        thread.join()
        gc.unfreeze()
    assert end.value.code == code
    assert left == [code] * leaves


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--version"]) == 0
    assert capsys.readouterr().out == f"anaphora {__version__}\n"


def test_python_m_anaphora() -> None:
    shown = subprocess.run([sys.executable, "-m", "anaphora", "--version"], capture_output=True, text=True, check=True)
    assert shown.stdout == f"anaphora {__version__}\n"


def test_the_library_says_which_extra_it_needs() -> None:
    code = "import sys; sys.modules['torch'] = None; from anaphora import LLM"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert shown.stderr.endswith("ImportError: LLM needs torch: pip install 'anaphora[engine]'\n")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_what_a_terminal_cannot_show_is_escaped(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"prompt": "甲 ← {text}"}}\n' for text in ("乙", "丙")), "utf-8")
    for more in ([], ["--json"]):
        shown = subprocess.run(
            [sys.executable, "-m", "anaphora", "explain", str(path), *more],
            capture_output=True,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            check=True,
        )
        text = "甲".encode(encoding, "backslashreplace")
        assert text in shown.stdout or (encoding == "ascii" and "甲".encode() in shown.stdout)  # the parser's own way
        assert shown.stderr == b""


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["swerve"], "No such command 'swerve'"),
        (["--colour"], "No such option: --colour"),
        (["serve", "a", "b"], "unexpected extra argument"),
        (["serve", "--port"], "requires an argument"),
    ],
)
def test_a_wrong_command_line_is_one_line(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(argv) == 2
    error = capsys.readouterr().err
    assert error.startswith("anaphora: error: ")
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("raised", "code", "line"),
    [
        (ConfigError("one\ntwo"), 2, "anaphora: error: one two\n"),
        (
            OSError(28, "No space left on device", "/model"),
            2,
            "anaphora: error: [Errno 28] No space left on device: '/model': free some, or write to another disk\n",
        ),
        (KeyboardInterrupt(), 130, ""),
        (typer.Exit(7), 7, ""),
        (typer.Abort(), 130, ""),
    ],
)
def test_what_a_command_raises_becomes_an_exit_code(
    raised: BaseException, code: int, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def app() -> typer.Typer:
        built = typer.Typer()

        @built.command()
        def fail() -> None:
            raise raised

        return built

    monkeypatch.setattr(cli, "build_app", app)
    assert cli.run(["--"]) == code
    assert capsys.readouterr().err == line


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def app() -> typer.Typer:
        built = typer.Typer()

        @built.command()
        def fail() -> None:
            raise ZeroDivisionError

        return built

    monkeypatch.setattr(cli, "build_app", app)
    with pytest.raises(ZeroDivisionError):
        cli.run(["--"])
