"""The benchmark of what simulations take."""

import json
from pathlib import Path

from benchmarks.sim.speed import RESULTS, lengthen, table

from anaphora.sim.prefix_paths import count_prefixes, paths_of
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.traces.reader import read_trace


def test_the_kept_table_says_what_was_measured() -> None:
    kept = json.loads((RESULTS / "speed.json").read_text())
    assert (RESULTS / "speed.md").read_text().strip() == table(kept)


def test_rounds_of_the_long_trace_share_nothing_and_follow_one_another(tmp_path: Path) -> None:
    rows = [
        {"timestamp": at_ms, "input_length": 1024, "output_length": 5, "hash_ids": ids}
        for at_ms, ids in ((0, [0, 1]), (500, [0, 2]))
    ]
    lengthen(rows, 3, tmp_path / "long.jsonl.gz")
    trace = read_trace(tmp_path / "long.jsonl.gz")
    assert [request.arrival_s for request in trace.requests] == [0, 0.5, 1.5, 2, 3, 3.5]
    assert count_prefixes(paths_of(cut_into_blocks(trace))) == 3 * 3
    assert not trace.findings
