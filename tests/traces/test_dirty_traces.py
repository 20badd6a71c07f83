"""Dirt is counted and said, never silently wrong (case 15)."""

import gzip
import json
from pathlib import Path
from typing import Any

from anaphora.traces.reader import read_trace
from anaphora.traces.request import HashedPrompt, Trace

CASE = Path(__file__).parents[1] / "data" / "cases" / "15-trace-dirty-mooncake"


def row(timestamp: float, length: int = 512, ids: list[int] | None = None, **more: Any) -> str:
    return json.dumps({"timestamp": timestamp, "input_length": length, "hash_ids": ids or [1], **more}) + "\n"


def found(trace: Trace) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {finding.kind.value: (finding.count, finding.lines) for finding in trace.findings}


def test_case_15() -> None:
    expected = json.loads((CASE / "expected.json").read_text())
    trace = read_trace(CASE / "trace.jsonl")
    assert trace.num_rows == expected["rows_parsed"]
    assert [request.line for request in trace.requests] == [1, 3, 6, 7, 8, 9]
    assert found(trace) == {
        "byte_order_mark": (1, (1,)),
        "blank_lines": (1, (2,)),
        "damaged": (1, (4,)),
        "wrong_block_count": (1, (5,)),
        "id_with_two_parents": (1, (7,)),
        "cut_off": (1, (10,)),
    }
    blocks = [list(r.prompt.block_ids) for r in trace.requests if isinstance(r.prompt, HashedPrompt)]
    assert blocks == [[0, 1, 2], [0, 1, 3], [4, 5], [6, 5], [7, 8, 9], [7, 8, 10]]
    said = [str(finding) for finding in trace.findings]
    assert said[3] == (
        "left out: 1 × not as many block ids as the prompt's length asks for (line 5); "
        "first: 2 ids for 20 tokens in blocks of 512"
    )


def test_rows_that_are_no_rows(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    bad = ['{"timestamp": NaN, "input_length": 5, "hash_ids": [1]}\n', "[1, 2]\n", "7\n", '"text"\n']
    bad += [row(1, ids=[1.5]), row(1, length=-3), row(1, length=True), '{"timestamp": 1, "hash_ids": [1]}\n']  # type: ignore[list-item]
    bad += ['{"timestamp": "soon", "input_length": 5, "hash_ids": [1]}\n', '{"input_length": 5, "hash_ids": 3}\n']
    path.write_text(row(0) + "".join(bad) + row(2))
    trace = read_trace(path)
    assert [request.line for request in trace.requests] == [1, 12]
    assert found(trace) == {"damaged": (10, (2, 3, 4, 5, 6))}
    assert "…" in str(trace.findings[0])


def test_empty_prompts_and_outputs(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(row(0, 0) + row(1, 5.0, output_length=0) + row(2, 5, output_length=3))  # type: ignore[arg-type]
    trace = read_trace(path)
    assert found(trace) == {"empty_prompt": (1, (1,)), "no_output": (1, (2,))}
    assert [request.num_output_tokens for request in trace.requests] == [0, 3]


def test_a_last_line_without_its_end_is_whole_if_it_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes((row(0) + row(1)).replace("\n", "\r\n").rstrip().encode())
    assert found(read_trace(path)) == {}
    assert len(read_trace(path).requests) == 2


def test_a_compressed_file_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / "trace"  # told by content, not by name
    path.write_bytes(gzip.compress("".join(row(i, ids=[i]) for i in range(3000)).encode())[:-2000])
    trace = read_trace(path)
    assert 0 < len(trace.requests) < 3000
    (finding,) = trace.findings
    assert finding.kind.value == "cut_off"
    assert finding.lines[0] >= len(trace.requests)


def test_order_of_arrival(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"

    def order(*times: float | None) -> tuple[list[int], dict[str, tuple[int, tuple[int, ...]]]]:
        path.write_text(
            "".join(
                row(time, ids=[i]) if time is not None else row(0, ids=[i]).replace('"timestamp": 0, ', "")
                for i, time in enumerate(times)
            )
        )
        trace = read_trace(path, format_name="mooncake")
        return [request.line for request in trace.requests], found(trace)

    assert order(0, 1, 1, 2) == ([1, 2, 3, 4], {})
    assert order(0, 2, 1, 2) == ([1, 3, 2, 4], {"unsorted": (1, ())})
    assert order(3, 2, 2, 1) == ([4, 3, 2, 1], {"reversed": (1, ())})
    assert order(3, 2, 4, 2, 1) == ([5, 4, 2, 1, 3], {"reversed": (1, ()), "unsorted": (1, ())})
    assert order(3, None, 1) == ([1, 2, 3], {"no_time": (1, (2,))})


def test_bytes_that_are_no_text_make_no_two_prompts_equal(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    good = b'{"prompt": "caf\xc3\xa9"}\n'
    path.write_bytes(good + b'{"prompt": "caf\xe9"}\n{"prompt": "caf\xe8"}\n')
    trace = read_trace(path)
    assert [request.line for request in trace.requests] == [1]
    assert found(trace) == {"damaged": (2, (2, 3)), "no_time": (1, (1,))}


def test_one_id_for_blocks_of_two_sizes_is_two_blocks(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(row(0, 600, [1, 2]) + row(1, 1024, [1, 2]) + row(2, 700, [1, 2]) + row(3, 600, [1, 2]))
    trace = read_trace(path)
    blocks = [list(r.prompt.block_ids) for r in trace.requests if isinstance(r.prompt, HashedPrompt)]
    assert blocks == [[0, 1], [0, 2], [0, 3], [0, 1]]
    assert found(trace) == {"id_of_two_sizes": (3, (2, 3, 4))}


def test_half_of_a_surrogate_pair_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    texts = ['"a \\ud83d b"', '"a \\ud83d\\ude00 b"', '"a \\\\ud83d b"', '"a \\uDE00"']
    path.write_text("".join(f'{{"messages": [{{"role": "user", "content": {text}}}]}}\n' for text in texts))
    trace = read_trace(path)
    assert [request.line for request in trace.requests] == [2, 3]
    assert found(trace)["damaged"] == (2, (1, 4))
