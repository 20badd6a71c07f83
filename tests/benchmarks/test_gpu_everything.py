"""The one command for a GPU machine: it names programs that exist, and tells how each of them ended."""

import importlib.util
import itertools
import json
import shlex
import sys
from pathlib import Path

import pytest
from benchmarks.gpu import everything
from benchmarks.gpu.everything import Part, main, parts, run


def test_every_part_is_a_program_of_ours_or_pytest(tmp_path: Path) -> None:
    known = parts(Path("model"), tmp_path)
    assert len({part.name for part in known}) == len(known)
    for part in known:
        flag, module, *_ = shlex.split(part.command)
        assert flag == "-m"
        assert importlib.util.find_spec(module) is not None, module
        assert "{port}" in part.command or "--server" not in part.command


def test_servers_are_our_own_with_and_without_front_ends(tmp_path: Path) -> None:
    command = next(part.command for part in parts(Path("model"), tmp_path) if part.name == "clients_at_once")
    words = shlex.split(command)
    servers = [value for flag, value in itertools.pairwise(words) if flag == "--server"]
    assert [server.partition("=")[0] for server in servers] == [
        "ours",
        "ours_1_front_ends",
        "ours_2_front_ends",
        "ours_4_front_ends",
    ]
    assert "--api-server-count" not in servers[0]
    assert servers[3].endswith("--port {port} --api-server-count 4")


@pytest.mark.parametrize(
    ("code", "limit_s", "expected"), [("print('hello')", 60, 0), ("raise SystemExit(3)", 60, 3), ("input()", 60, 1)]
)
def test_a_part_leaves_its_exit_code_and_its_words(tmp_path: Path, code: str, limit_s: int, expected: int) -> None:
    outcome = run(Part("p", f"-c {shlex.quote(code)}", limit_s), tmp_path)
    assert (outcome.name, outcome.exit_code, outcome.log) == ("p", expected, "p.log")
    assert (b"hello" in (tmp_path / "p.log").read_bytes()) == (expected == 0)


def test_one_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    outcome = run(Part("slow", "-c 'import time; time.sleep(600)'", 1), tmp_path)
    assert outcome.exit_code is None


def test_what_failed_is_told_and_the_others_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = [Part("bad", "-c 'raise SystemExit(4)'", 60), Part("good", "-c ''", 60)]
    monkeypatch.setattr(everything, "parts", lambda model, out: ours)
    monkeypatch.setattr(sys, "argv", ["everything", "model", "--out", str(tmp_path / "out")])
    assert main() == 1
    outcomes = json.loads((tmp_path / "out" / "everything.json").read_text())
    assert [(outcome["name"], outcome["exit_code"]) for outcome in outcomes] == [("bad", 4), ("good", 0)]
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--only", "best"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
