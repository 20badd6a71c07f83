from pathlib import Path

import pytest

from anaphora.cli.main import run
from tests.models_for_tests import tiny_checkpoint, write_tiny_gguf


def test_it_prints_the_folder_and_the_second_time_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ANAPHORA_HOME", str(tmp_path / "home"))
    file = write_tiny_gguf(tmp_path / "tiny.gguf", tiny_checkpoint(tmp_path / "m", rope_scaling=None))
    assert run(["fetch", str(file)]) == 0
    first = capsys.readouterr()
    folder = Path(first.out.removesuffix("\n"))
    assert (folder / "model.safetensors").is_file()
    assert folder.parent == tmp_path / "home" / "models"
    assert "converting tiny.gguf" in first.err

    assert run(["fetch", str(file)]) == 0
    assert capsys.readouterr() == (first.out, "")


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fetch", "nosuch"]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert "'nosuch': no such folder or file" in output.err
