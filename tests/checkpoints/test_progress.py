import pytest

from anaphora.checkpoints import TerminalProgress


def test_work_already_done_stays_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with TerminalProgress():
        pass
    assert capsys.readouterr() == ("", "")


def test_each_task_is_a_line_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    with TerminalProgress() as progress:
        progress("downloading x", 0, 0)
        progress("downloading x", 10, 20)
        progress("downloading x", 20, 20)
        progress("converting x", 1000, 1000)
    output = capsys.readouterr()
    assert output.out == ""
    lines = [line.split() for line in output.err.splitlines() if line.strip()]
    assert [line[:2] for line in lines] == [["downloading", "x"], ["converting", "x"]]
    assert "20/20" in lines[0]
