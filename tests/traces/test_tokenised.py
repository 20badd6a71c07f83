"""Texts become tokens by the caller's encoder; what it refuses is left out and said."""

import json
from array import array
from pathlib import Path

import pytest

from anaphora.errors import ChatTemplateError, TraceError
from anaphora.traces.reader import read_trace
from anaphora.traces.request import ChatPrompt, TextPrompt, TokenPrompt
from anaphora.traces.tokenised import needs_tokenizer, tokenised


def encode(prompt: TextPrompt | ChatPrompt) -> list[int]:
    if isinstance(prompt, ChatPrompt):
        raise ChatTemplateError("roles must\nalternate")
    return list(prompt.text.encode())


def test_prompts_become_token_ids(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    rows = [{"prompt": "ab"}, {"prompt": [1]}, {"messages": [{"role": "user", "content": "x"}]}, {"prompt": ""}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    raw = read_trace(path)
    assert needs_tokenizer(raw)
    trace = tokenised(raw, encode)
    assert not needs_tokenizer(trace)
    assert [request.prompt for request in trace.requests] == [
        TokenPrompt(array("I", [97, 98])),
        TokenPrompt(array("I", [1])),
    ]
    assert [str(finding) for finding in trace.findings[-2:]] == [
        "left out: 1 × the chat template refuses the messages (line 3); first: roles must alternate",
        "left out: 1 × the prompt is empty (line 4)",
    ]


def test_a_trace_without_one_usable_prompt_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"messages": [{"role": "user", "content": "x"}]}))
    with pytest.raises(TraceError, match="roles must alternate"):
        tokenised(read_trace(path), encode)
