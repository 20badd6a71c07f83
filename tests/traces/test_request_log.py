"""Request logs of our own server as traces."""

import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import TraceError
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.traces.reader import read_trace
from anaphora.traces.request import TokenPrompt, Trace

SERVER = {
    "kind": "server",
    "format_version": 1,
    "content": "digests",
    "block_size": 4,
    "num_blocks": 100,
    "eviction_policy": "lru",
    "max_num_seqs": 8,
    "max_num_batched_tokens": 64,
    "target_prefill_tokens": 32,
}


def served(num_prompt: int, num_output: int, digests: list[str] | None = None, **fields: Any) -> dict[str, Any]:
    tokens = {} if digests is None else {"block_digests": digests}
    counts = {"prompt_tokens": num_prompt, "output_tokens": num_output, "ledger": {"new": num_prompt}}
    return {"kind": "served", "arrival_s": 5, **counts, **tokens, **fields}


def read(tmp_path: Path, *rows: dict[str, Any]) -> Trace:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return read_trace(path)


def tokens(trace: Trace) -> list[tuple[list[int], list[int]]]:
    """Prompt and output of each request."""
    pairs = []
    for request in trace.requests:
        assert isinstance(request.prompt, TokenPrompt)
        assert request.output_token_ids is not None
        pairs.append((list(request.prompt.token_ids), list(request.output_token_ids)))
    return pairs


def test_digests_become_tokens_that_are_equal_where_blocks_are(tmp_path: Path) -> None:
    trace = read(tmp_path, SERVER, served(6, 4, ["aa", "bb"]), served(6, 1, ["aa"]), served(9, 0, ["aa", "bb"]))
    (first, first_output), (second, _), (third, third_output) = tokens(trace)
    a, b, unknown = first[0], first[4], first_output[-1]
    assert first == [a] * 4 + [b] * 2
    assert first_output == [b] * 2 + [unknown] * 2
    assert second[:4] == [a] * 4
    assert third[:8] == [a] * 4 + [b] * 4
    assert len({a, b, unknown, second[4], third[8]}) == 5, "what has no digest is like nothing else"
    assert third_output == []
    assert (trace.format, trace.block_size) == ("request-log", 4)


def test_token_ids_are_what_they_are(tmp_path: Path) -> None:
    one = served(3, 2, prompt_token_ids=[7, 8, 9], output_token_ids=[1, 2], tenant="t", lookup=False)
    trace = read(tmp_path, {**SERVER, "content": "token-ids"}, one)
    assert tokens(trace) == [([7, 8, 9], [1, 2])]
    (request,) = trace.requests
    assert (request.namespace, request.lookup, request.arrival_s, request.num_output_tokens) == ("t", False, 5, 2)
    assert trace.block_size is None
    assert cut_into_blocks(trace)[0].block_size == 4, "as its server, unless asked otherwise"
    assert cut_into_blocks(trace, 3)[0].blocks[0] == cut_into_blocks(trace, 3)[0].token_ids().tobytes()


def test_what_the_server_was_and_measured(tmp_path: Path) -> None:
    ledger = {"reused_device": 4, "tail": 2}
    trace = read(tmp_path, SERVER, served(6, 1, ["aa"]), served(6, 1, ["aa"], ledger=ledger))
    by = trace.served_by
    assert by is not None
    assert (by.num_blocks, by.block_size, by.eviction_policy, by.num_requests) == (100, 4, "lru", 2)
    assert (by.max_num_seqs, by.max_num_batched_tokens, by.target_prefill_tokens) == (8, 64, 32)
    assert (by.num_prompt_tokens, by.num_cached_tokens) == (12, 4)
    assert by.num_tokens_by_reason == {"new": 6, **ledger}


def test_a_server_of_an_earlier_log_let_anybody_into_its_steps(tmp_path: Path) -> None:
    before = {name: value for name, value in SERVER.items() if name != "target_prefill_tokens"}
    earlier, later = read(tmp_path, before, served(4, 1, ["aa"])), read(tmp_path, before, served(4, 1, ["aa"]), SERVER)
    assert earlier.served_by is not None
    assert later.served_by is not None
    assert (earlier.served_by.target_prefill_tokens, later.served_by.target_prefill_tokens) == (0, 32)


@pytest.mark.parametrize("content", ["digests", "token-ids"])
def test_nothing_is_shared_across_a_reset_or_a_start(tmp_path: Path, content: str) -> None:
    start = {**SERVER, "content": content}
    one = served(4, 1, ["aa"], prompt_token_ids=[1, 2, 3, 4], output_token_ids=[5])
    trace = read(tmp_path, start, one, {"kind": "reset"}, one, start, one)
    blocks = {(prompt.namespace, *prompt.blocks) for prompt in cut_into_blocks(trace)}
    assert len(blocks) == 3
    (finding,) = trace.findings
    assert (finding.kind.value, finding.count, finding.lines) == ("emptied", 2, (3, 5))


def test_requests_come_in_the_order_of_their_arrival_and_lost_ones_are_told(tmp_path: Path) -> None:
    rows = [served(4, 1, ["aa"], arrival_s=arrival_s) for arrival_s in (3, 1, 2)]
    trace = read(tmp_path, SERVER, *rows, {"kind": "lost", "count": 7})
    assert [request.arrival_s for request in trace.requests] == [1, 2, 3]
    assert [(finding.kind.value, finding.count) for finding in trace.findings] == [("lost", 7)]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"kind": "other"}, "unknown kind 'other'"),
        (served(0, 1, []), "prompt_tokens and output_tokens must be there"),
        (served(4, 1, ["aa", "bb"]), "2 digests for 5 tokens in blocks of 4"),
        (served(4, 1, ["aa"], ledger={"new": 3}), "the ledger does not add up"),
    ],
)
def test_damaged_rows_are_left_out(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    (finding,) = read(tmp_path, SERVER, served(4, 1, ["aa"]), row).findings
    assert (finding.kind.value, finding.lines) == ("damaged", (3,))
    assert reason in finding.detail


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{**SERVER, "format_version": 2}], "format version 2, this release reads 1"),
        ([{**SERVER, "target_prefill_tokens": -1}], "line 1 .* target_prefill_tokens must be a whole number from 0 on"),
        ([SERVER, served(4, 1, ["aa"]), {**SERVER, "block_size": 8}], "from line 3 on the log has other contents"),
    ],
)
def test_logs_that_cannot_be_read(tmp_path: Path, rows: list[dict[str, Any]], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        read(tmp_path, *rows)


def test_a_log_without_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(served(4, 1, ["aa"])) + "\n")
    with pytest.raises(TraceError, match="has lost its first rows"):
        read_trace(path, format_name="request-log")
