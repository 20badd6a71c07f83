"""Formats: told apart, read exactly, refused where they cannot answer."""

import gzip
import json
from array import array
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import TraceError
from anaphora.traces.reader import read_trace
from anaphora.traces.request import ChatPrompt, HashedPrompt, TextPrompt, TokenPrompt, Trace

DATA = Path(__file__).parents[1] / "data" / "traces"


def write(folder: Path, *rows: Any, name: str = "trace.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def ids(trace: Trace) -> list[list[int]]:
    return [list(r.prompt.block_ids) for r in trace.requests if isinstance(r.prompt, HashedPrompt)]


def test_mooncake() -> None:
    trace = read_trace(DATA / "mooncake_conversation_300.jsonl.gz")
    assert (trace.format, trace.block_size, trace.num_rows, len(trace.requests)) == ("mooncake", 512, 300, 300)
    assert trace.findings == ()
    first, second = trace.requests[:2]
    assert (first.arrival_s, first.num_output_tokens, first.session) == (0.0, 500, None)
    assert first.prompt == HashedPrompt(array("I", range(14)), 6758)
    assert ids(trace)[1] == [0, *range(14, 28)], second
    assert trace.requests[-1].arrival_s == pytest.approx(102.0)


def test_coding_sessions_have_ids_of_their_own_and_full_blocks_only() -> None:
    trace = read_trace(DATA / "claude_code_sessions_2.jsonl.gz")
    assert (trace.format, trace.block_size, trace.num_rows) == ("coding-sessions", 64, 2)
    assert {f.kind.value for f in trace.findings} == {"session_ids", "unidentified_tail"}
    sessions = {r.session for r in trace.requests}
    assert len(sessions) == 2
    blocks = {
        s: {n for r, row in zip(trace.requests, ids(trace), strict=True) if r.session == s for n in row}
        for s in sessions
    }
    one, other = blocks.values()
    assert not one & other


def test_times_of_sub_agents_begin_with_the_sub_agent(tmp_path: Path) -> None:
    inner = {"t": 100.0, "type": "subagent", "requests": [{"t": 4.0, "in": 64, "out": 1, "hash_ids": [7]}]}
    outer = [
        {"t": 0.0, "in": 64, "out": 0, "hash_ids": [1]},
        inner,
        {"t": 9.0, "in": 128, "out": 1, "hash_ids": [1, 2]},
    ]
    trace = read_trace(write(tmp_path, {"id": "s", "block_size": 64, "requests": outer}))
    assert [r.arrival_s for r in trace.requests] == [0.0, 9.0, 104.0]
    assert ids(trace) == [[0], [0, 2], [1]]
    assert {f.kind.value for f in trace.findings} == {"session_ids", "no_output"}


def test_bailian_times_are_seconds_and_chats_follow_their_parents(tmp_path: Path) -> None:
    row = {"type": "text", "turn": 1, "output_length": 3, "input_length": 20, "hash_ids": [5, 6]}
    rows = [
        {**row, "chat_id": 1, "parent_chat_id": -1, "timestamp": 1.5},
        {**row, "chat_id": 2, "parent_chat_id": 1, "timestamp": 2.25, "turn": 2},
        {**row, "chat_id": "3", "parent_chat_id": None, "timestamp": 3},
        {**row, "chat_id": 4, "parent_chat_id": 2, "timestamp": 4},
    ]
    trace = read_trace(write(tmp_path, *rows))
    assert (trace.format, trace.block_size) == ("bailian", 16)
    assert [(r.arrival_s, r.session) for r in trace.requests] == [(1.5, "1"), (2.25, "1"), (3.0, "3"), (4.0, "1")]


def test_aiperf_rows_may_hold_texts_chats_and_payloads(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hello"}]
    rows = [
        {"session_id": "a", "timestamp": 1000, "text_input": "once", "output_length": 2},
        {"session_id": "a", "delay": 500, "messages": messages, "tools": [{"type": "function"}]},
        {"session_id": "b", "timestamp": 2000, "payload": {"model": "m", "messages": messages}},
        {"session_id": "b", "timestamp": 3000, "input_length": 600, "hash_ids": [1, 2]},
        {"session_id": "b", "timestamp": 4000, "input_length": 600},
        {"session_id": "b", "timestamp": 5000, "input_length": 600, "text_input": "both"},
    ]
    trace = read_trace(write(tmp_path, *rows))
    assert trace.format == "mooncake"
    assert [r.prompt for r in trace.requests] == [
        TextPrompt("once"),
        ChatPrompt(messages, [{"type": "function"}], {}),
        ChatPrompt(messages, None, {}),
        HashedPrompt(array("I", [0, 1]), 600),
    ]
    assert [r.arrival_s for r in trace.requests] == [1.0, 1.5, 2.0, 3.0]
    assert {f.kind.value: f.lines for f in trace.findings} == {"no_prefix": (5,), "damaged": (6,)}


def test_what_block_ids_stand_for_says_nothing_about_texts(tmp_path: Path) -> None:
    text = {"session_id": "a", "timestamp": 0, "text_input": "once"}
    assert read_trace(write(tmp_path, text)).block_size is None
    assert read_trace(write(tmp_path, text, {"input_length": 600, "hash_ids": [1, 2]})).block_size == 512


def test_token_ids(tmp_path: Path) -> None:
    rows = [
        [1, 2, 3],
        {"prompt_token_ids": [4], "arrival_s": 2.5, "output_token_ids": [9, 8], "namespace": "n", "session_id": 7},
        {"input_ids": [5], "timestamp": 3000, "output_length": 4, "cache_salt": "s"},
        {"token_ids": []},
        {"token_ids": [-1]},
        {"token_ids": "no"},
    ]
    trace = read_trace(write(tmp_path, *rows))
    assert (trace.format, trace.block_size) == ("token-ids", None)
    seen = [(r.prompt, r.arrival_s, r.num_output_tokens, r.session, r.namespace) for r in trace.requests]
    assert seen == [
        (TokenPrompt(array("I", [1, 2, 3])), None, None, None, ""),
        (TokenPrompt(array("I", [4])), 2.5, 2, "7", "n"),
        (TokenPrompt(array("I", [5])), 3.0, 4, None, "s"),
    ]
    assert list(trace.requests[1].output_token_ids or ()) == [9, 8]
    assert {f.kind.value: f.lines for f in trace.findings} == {"empty_prompt": (4,), "damaged": (5, 6), "no_time": (1,)}


def test_openai_bodies_batches_and_pairs(tmp_path: Path) -> None:
    messages = [{"role": "user", "content": "hello"}]
    usage = {"usage": {"completion_tokens": 12}}
    rows = [
        {"model": "m", "messages": messages, "cache_salt": "s", "user": "u", "created": 5},
        {"custom_id": "1", "method": "POST", "url": "/v1/completions", "body": {"model": "m", "prompt": "once"}},
        {"request": {"prompt": [1, 2]}, "response": {"body": usage}, "timestamp": "1970-01-01T00:00:09"},
        {"model": "m", "prompt": ["two", "prompts"]},
    ]
    trace = read_trace(write(tmp_path, *rows))
    assert trace.format == "openai"
    assert [r.prompt for r in trace.requests] == [
        ChatPrompt(messages, None, {}),
        TextPrompt("once"),
        TokenPrompt(array("I", [1, 2])),
    ]
    assert [r.arrival_s for r in trace.requests] == [5.0, None, 9.0]
    assert (trace.requests[0].namespace, trace.requests[0].session) == ("s", "u")
    assert trace.requests[2].num_output_tokens == 12
    with pytest.raises(TraceError, match="batch's input file"):
        read_trace(write(tmp_path, {"custom_id": "1", "response": {"status_code": 200}}))


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type", "BurstGPT"),
        ("Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type", "BurstGPT"),
        ("\ufeffTIMESTAMP,ContextTokens,GeneratedTokens", "Azure"),
        ("num_prefill_tokens,num_decode_tokens,num_total_tokens,pd_ratio", "lengths"),
    ],
)
def test_traces_of_lengths_are_refused_with_the_reason(tmp_path: Path, head: str, reason: str) -> None:
    path = tmp_path / "trace.csv.gz"
    path.write_bytes(gzip.compress((head + "\n1,2,3\n").encode()))
    with pytest.raises(TraceError, match=rf"is an? .*{reason}.*no cache question can be answered"):
        read_trace(path)


@pytest.mark.parametrize(
    "fields",
    [
        {"messages": ["hello"]},
        {"messages": {"role": "user"}},
        {"messages": []},
        {"messages": [{"role": "user"}], "tools": "all"},
        {"messages": [{"role": "user"}], "tools": ["all"]},
        {"messages": [{"role": "user"}], "chat_template_kwargs": ["enable_thinking"]},
        {"prompt": []},
        {"prompt": ["one", "two"]},
        {"prompt": [1, -1]},
        {"prompt": 7},
        {"input": "an embedding's"},
    ],
)
def test_bodies_that_no_server_would_take_are_left_out(tmp_path: Path, fields: dict[str, Any]) -> None:
    good = {"body": {"messages": [{"role": "user", "content": "x"}]}}
    trace = read_trace(write(tmp_path, good, {"body": fields}))
    assert [request.line for request in trace.requests] == [1]
    assert {f.kind.value: f.lines for f in trace.findings} == {"damaged": (2,), "no_time": (1,)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (json.dumps([{"prompt": "a"}, {"prompt": "b"}]), "is one JSON document"),
        (json.dumps([{"prompt": "a"}, {"prompt": "b"}], indent=1), "is one JSON document"),
        (json.dumps({"data": [{"payloads": []}]}, indent=1), "is one JSON document"),
        (json.dumps({"data": []}), "is no trace of a known format"),
        ('{"prompt": "a}\n', "has no row of JSON: left out: 1 × not a row of this format .line 1.; first: Unterm"),
        ("{}\n{}\n", "is no trace of a known format"),
        ("1\n", "is no trace of a known format"),
        ("\n \n", "is empty"),
    ],
)
def test_a_document_is_told_from_rows(tmp_path: Path, text: str, reason: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=reason):
        read_trace(path)


def test_other_encodings_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for codec in ("utf-16", "utf-16-be"):
        path.write_bytes((b"\xfe\xff" if codec == "utf-16-be" else b"") + '{"prompt": "a"}\n'.encode(codec))
        with pytest.raises(TraceError, match="is UTF-16: save it as UTF-8"):
            read_trace(path)


@pytest.mark.parametrize("cut_at", [3, 12, 30])
def test_a_compressed_file_without_one_whole_line_is_not_empty(tmp_path: Path, cut_at: int) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"prompt": "a rather long beginning"}\n' * 9)[:cut_at])
    with pytest.raises(TraceError, match="has not one whole line: the compressed file is incomplete"):
        read_trace(path)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"records of `anaphora bench`"):
        read_trace(write(tmp_path, {"kind": "run", "run_id": "r"}))
    with pytest.raises(TraceError, match="no trace of a known format"):
        read_trace(write(tmp_path, {"name": "something"}))
    with pytest.raises(TraceError, match="is empty"):
        read_trace(write(tmp_path))
    with pytest.raises(TraceError, match=r"cannot read .*: No such file"):
        read_trace(tmp_path / "missing.jsonl")
    with pytest.raises(TraceError, match=r"left out: 1 × .* first: chat_id is missing"):
        read_trace(write(tmp_path, {"prompt": "a"}), format_name="bailian")
    with pytest.raises(TraceError, match="'csv' is not known; choose one of: coding-sessions, bailian"):
        read_trace(write(tmp_path, [1]), format_name="csv")


def test_the_format_and_the_block_size_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path, {"input_length": 20, "hash_ids": [1, 2]})
    with pytest.raises(TraceError, match="blocks of 512 tokens: give the trace's own block size"):
        read_trace(path, format_name="mooncake")
    assert ids(read_trace(path, format_name="mooncake", block_size=16)) == [[0, 1]]
    with pytest.raises(TraceError, match="give --trace-block-size 16"):
        read_trace(write(tmp_path, {"timestamp": 0, "input_length": 20, "hash_ids": [1, 2], "block_size": 16}))
    with pytest.raises(TraceError, match="give --trace-block-size 32"):
        read_trace(write(tmp_path, {"block_size": 32, "requests": []}))
