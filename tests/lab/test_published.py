"""Published tables, good and bad."""

from pathlib import Path

import pytest

from anaphora.errors import TraceError
from anaphora.lab.published import fit_table
from anaphora.lab.report.lines import lines_table

HEAD = "prompt_tokens,off_ttft_ms,on_ttft_ms\n"


def test_columns_in_any_order_beside_others_and_empty_cells(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        "\ufeffnote, on_ttft_ms , prompt_tokens,off_ttft_ms\nx,10,1000,100\ny,,2000,200\nz,30,3000,300\n", "utf-8"
    )
    fitted = fit_table(path)
    assert fitted["fit"]["off"]["slope_ms_per_ktoken"] == 100
    assert (fitted["fit"]["on"]["slope_ms_per_ktoken"], fitted["fit"]["on"]["num_points"]) == (10, 2)
    assert fitted["slope_reduction_percent"] == 90


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "lacks the column prompt_tokens"),
        ("prompt_tokens,off_ttft_ms\n1,2\n", "lacks the column on_ttft_ms: its first line must name"),
        (HEAD, "a line needs two rows"),
        (HEAD + "1,2,3\n", "a line needs two rows"),
        (HEAD + "1,2,3\n1,4,5\n", "a line needs two rows with different prompt_tokens"),
        (HEAD + "1,2,3\n2,many,5\n", "line 3, off_ttft_ms: 'many' is no time or count"),
        (HEAD + "1,2,nan\n", "line 2, on_ttft_ms: 'nan'"),
        (HEAD + "1,inf,3\n", "'inf'"),
        (HEAD + "-1,2,3\n", "'-1'"),
        (HEAD + "1,2,\n2,3,\n", "and a value in on_ttft_ms"),
    ],
)
def test_what_cannot_be_fitted_is_told(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_text(text, "utf-8")
    with pytest.raises(TraceError, match=message):
        fit_table(path)


def test_files_that_are_no_tables(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read .*: No such file or directory"):
        fit_table(tmp_path / "none.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(TraceError, match="is no CSV table in UTF-8"):
        fit_table(tmp_path / "b.csv")


def test_the_lines_say_how_far_they_reach_and_what_they_cannot_tell(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text(
        HEAD + "353,111.4,36.7\n681,168.7,43.0\n1337,279.4,45.1\n2649,574.0,56.1\n3961,852.7,62.8\n", "utf-8"
    )
    assert lines_table(fit_table(path)).note == (
        "the slope falls by 96.65%; ± is the half-width at 95%; the intercepts cannot be told apart; "
        "nothing is said beyond 353 to 3,961 tokens"
    )
