import resource
import subprocess
import sys
from pathlib import Path

import pytest

from anaphora.checkpoints.home import anaphora_home, make_once
from anaphora.checkpoints.progress import silent
from anaphora.errors import CheckpointError


def test_where_the_home_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("ANAPHORA_HOME", "~/models")
    assert anaphora_home() == Path("/home/ann/models")
    monkeypatch.delenv("ANAPHORA_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/ann")
    assert anaphora_home() == Path("/var/cache/ann/anaphora")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert anaphora_home() == Path("/home/ann/.cache/anaphora")


def make_folder(path: Path) -> None:
    path.mkdir()
    (path / "sub").mkdir()
    (path / "sub" / "file").write_text("whole")


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


class TestMakeOnce:
    def test_it_is_made_once(self, home: Path) -> None:
        calls: list[Path] = []

        def make(path: Path) -> None:
            calls.append(path)
            make_folder(path)

        target = home / "models" / "m"
        assert make_once(target, make, silent) == target
        assert make_once(target, make, silent) == target
        assert calls == [home / "partial" / "m" / "m"]
        assert (target / "sub" / "file").read_text() == "whole"
        assert entries(home / "partial") == []

    def test_it_may_be_a_file(self, home: Path) -> None:
        target = make_once(home / "downloads" / "f", lambda path: Path.touch(path), silent)
        assert target.is_file()

    def test_a_failure_leaves_nothing(self, home: Path) -> None:
        def fail(path: Path) -> None:
            make_folder(path)
            raise ValueError("halfway")

        with pytest.raises(ValueError, match="halfway"):
            make_once(home / "models" / "m", fail, silent)
        assert entries(home / "models") == entries(home / "partial") == []

    def test_what_a_dead_process_left_is_removed(self, home: Path) -> None:
        for name in ("m", "other"):
            make_folder_with_parents(home / "partial" / name / name)
        make_once(home / "models" / "m", make_folder, silent)
        assert entries(home / "partial") == []

    def test_what_a_living_process_makes_is_left_alone(self, home: Path) -> None:
        def make(path: Path) -> None:
            make_folder(path)
            make_once(home / "models" / "inner", make_folder, silent)
            assert entries(home / "partial") == ["outer"]

        make_once(home / "models" / "outer", make, silent)
        assert entries(home / "models") == ["inner", "outer"]

    def test_a_second_process_waits_and_says_so(self, home: Path) -> None:
        code = """
import sys, time
from pathlib import Path
from anaphora.checkpoints.home import make_once
def make(path):
    print("making", flush=True)
    sys.stdin.readline()
    path.write_text("first")
make_once(Path(sys.argv[1]), make, lambda *_: None)
"""
        target = home / "models" / "m"
        command = [sys.executable, "-c", code, str(target)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
            assert first.stdin is not None
            assert first.stdout is not None
            assert first.stdout.readline() == "making\n"
            said: list[str] = []

            def progress(task: str, done: int, total: int) -> None:
                assert first.stdin is not None
                said.append(task)
                first.stdin.write("go on\n")
                first.stdin.flush()

            make_once(target, lambda path: pytest.fail("made twice"), progress)
        assert said == ["waiting for another process that makes m"]
        assert target.read_text() == "first"


def make_folder_with_parents(path: Path) -> None:
    path.parent.mkdir(parents=True)
    make_folder(path)


class TestErrors:
    def test_a_full_disk(self, home: Path) -> None:
        code = f"""
import resource
from pathlib import Path
from anaphora.checkpoints.home import make_once
from anaphora.errors import CheckpointError
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, {resource.RLIM_INFINITY}))
try:
    make_once(Path({str(home)!r}) / "models" / "m", lambda path: path.write_bytes(bytes(2000)), lambda *_: None)
except CheckpointError as error:
    print(error)
"""
        result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert result.stdout == (
            f"cannot make {home}/models/m: File too large: make room, or choose another folder with ANAPHORA_HOME\n"
        )
        assert entries(home / "models") == entries(home / "partial") == []

    def test_a_home_that_is_no_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path / "file"))
        (tmp_path / "file").touch()
        with pytest.raises(CheckpointError, match=r"cannot make .*: choose another folder with ANAPHORA_HOME"):
            make_once(tmp_path / "file" / "models" / "m", make_folder, silent)
