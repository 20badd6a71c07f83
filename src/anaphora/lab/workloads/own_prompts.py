"""A person's own requests out of a file that a trace reader knows: chat bodies, batch lines, AIPerf's texts."""

import json
from collections.abc import Sequence
from pathlib import Path

from anaphora.errors import TraceError
from anaphora.lab.workloads.chats import Chat
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import json_rows
from anaphora.traces.reader import read_trace
from anaphora.traces.request import ChatPrompt, TextPrompt, TraceRequest

NO_GROUP = "no shared beginning"
_SHARED_CHARACTERS = 200
_OF_NO_USE_HERE = (FindingKind.NO_TIME, FindingKind.NO_OUTPUT)


def read_chats(path: Path, *, max_tokens: int, limit: int) -> tuple[list[Chat], list[str]]:
    """The first ``limit`` requests as chats, and what should be said of the reading.

    A group is the row's ``group``, else those that begin with the same 200 characters as an earlier request.
    Raises :class:`TraceError` for a file that cannot be read, or has no texts.
    """
    trace = read_trace(path)
    requests = trace.requests[:limit]
    chats = [_chat(request, max_tokens) for request in requests]
    if any(chat is None for chat in chats):
        raise TraceError(f"{path} has no texts to send, only token ids or block hashes: give chat requests")
    notes = [str(finding) for finding in trace.findings if finding.kind not in _OF_NO_USE_HERE]
    if len(trace.requests) > limit:
        notes.append(f"the first {limit} of {len(trace.requests)} requests are sent: raise --limit for more")
    if any(isinstance(request.prompt, TextPrompt) for request in requests):
        notes.append("bare texts are sent as chats of one user message")
    known = [chat for chat in chats if chat is not None]
    named = _named_groups(path)
    found = _found_groups([_beginning(chat) for chat in known])
    return [
        Chat(named.get(request.line) or group, chat.messages, max_tokens, chat.tools)
        for request, chat, group in zip(requests, known, found, strict=True)
    ], notes


def _chat(request: TraceRequest, max_tokens: int) -> Chat | None:
    prompt = request.prompt
    if isinstance(prompt, ChatPrompt):
        return Chat("", tuple(prompt.messages), max_tokens, tuple(prompt.tools or ()))
    if isinstance(prompt, TextPrompt):
        return Chat("", ({"role": "user", "content": prompt.text},), max_tokens)
    return None


def _named_groups(path: Path) -> dict[int, str]:
    """``group`` by line, where a row has one."""
    return {
        row.line: str(row.value["group"])
        for row in json_rows(path, Findings())
        if isinstance(row.value, dict) and isinstance(row.value.get("group"), str | int)
    }


def _beginning(chat: Chat) -> str:
    return json.dumps([chat.tools, chat.messages], ensure_ascii=False)


def _found_groups(texts: Sequence[str]) -> list[str]:
    """A name for each text: how the requests begin that share as much, or that there are none."""
    heads = [text[:_SHARED_CHARACTERS] for text in texts]
    numbers = {head: number for number, head in enumerate(dict.fromkeys(heads), 1)}
    return [NO_GROUP if heads.count(head) == 1 else f"group {numbers[head]}" for head in heads]
