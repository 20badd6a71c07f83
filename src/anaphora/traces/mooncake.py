"""Traces of block hashes: Mooncake's, AIPerf's extension of it, and Bailian's. An id stands for a whole prefix.

Mooncake: ``timestamp`` (ms), ``input_length``, ``output_length``, ``hash_ids``, one id for every 512 tokens, the last
one for what is left. AIPerf adds ``session_id``, ``delay`` (ms after the session's turn before), and prompts as
``text_input``, ``messages`` or ``payload`` in place of ids. Bailian: ``timestamp`` in seconds, ``chat_id``,
``parent_chat_id`` (-1: none), blocks of 16 tokens.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from anaphora.errors import TraceError
from anaphora.traces.base import as_object, note_empty_output
from anaphora.traces.block_ids import BlockIds
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import Row, get_count, get_number, get_text
from anaphora.traces.request import HashedPrompt, Prompt, TextPrompt, TraceRequest
from anaphora.traces.request_body import prompt_of_body

MS_PER_S = 1000.0
_PROMPT_FIELDS = ("input_length", "text_input", "messages", "payload")


class MooncakeReader:
    """Mooncake and AIPerf."""

    name: ClassVar[str] = "mooncake"
    default_block_size: ClassVar[int | None] = 512
    interleaves: ClassVar[bool] = False

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        assert block_size is not None
        self._block_ids = BlockIds(block_size, findings)
        self._block_size = block_size
        self._findings = findings
        self._last_arrival_s: dict[str, float] = {}

    @staticmethod
    def recognises(value: Any) -> bool:
        return (
            isinstance(value, dict)
            and any(name in value for name in _PROMPT_FIELDS)
            and ("hash_ids" in value or "timestamp" in value or "delay" in value or "session_id" in value)
            and not ("messages" in value and "model" in value)
        )

    def read(self, row: Row) -> Iterable[TraceRequest]:
        value = as_object(row.value)
        session = get_text(value, "session_id")
        arrival_s = self._arrival_s(value, session)
        num_output_tokens = get_count(value, "output_length")
        prompt = self._prompt(value, row.line)
        if prompt is None:
            return
        note_empty_output(num_output_tokens, row.line, self._findings)
        yield TraceRequest(
            line=row.line,
            arrival_s=arrival_s,
            prompt=prompt,
            num_output_tokens=num_output_tokens,
            session=session,
        )

    def _prompt(self, value: dict[str, Any], line: int) -> Prompt | None:
        given = [name for name in _PROMPT_FIELDS if value.get(name) is not None]
        if len(given) != 1:
            raise ValueError(f"expected one of {', '.join(_PROMPT_FIELDS)}, got {', '.join(given) or 'none'}")
        if given == ["input_length"]:
            self._expect_block_size(value)
            return hashed_prompt(value, self._block_ids, line, self._findings)
        if given == ["text_input"]:
            return TextPrompt(str(value["text_input"]))
        return prompt_of_body(value["payload"] if given == ["payload"] else value)

    def _expect_block_size(self, value: dict[str, Any]) -> None:
        said = get_count(value, "block_size")
        if said not in (None, self._block_size):
            raise TraceError(f"the rows say block_size {said}, not {self._block_size}: give --trace-block-size {said}")

    def _arrival_s(self, value: dict[str, Any], session: str | None) -> float | None:
        timestamp_ms, delay_ms = get_number(value, "timestamp"), get_number(value, "delay")
        if timestamp_ms is not None:
            arrival_s = timestamp_ms / MS_PER_S
        elif delay_ms is not None and session in self._last_arrival_s:
            arrival_s = self._last_arrival_s[session] + delay_ms / MS_PER_S
        else:
            return None
        if session is not None:
            self._last_arrival_s[session] = arrival_s
        return arrival_s


class BailianReader:
    """Alibaba's traces of Qwen services."""

    name: ClassVar[str] = "bailian"
    default_block_size: ClassVar[int | None] = 16
    interleaves: ClassVar[bool] = False

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        assert block_size is not None
        self._block_ids = BlockIds(block_size, findings)
        self._findings = findings
        self._root_chat: dict[int, int] = {}

    @staticmethod
    def recognises(value: Any) -> bool:
        return isinstance(value, dict) and "chat_id" in value and "hash_ids" in value

    def read(self, row: Row) -> Iterable[TraceRequest]:
        value = as_object(row.value)
        arrival_s = get_number(value, "timestamp")
        num_output_tokens = get_count(value, "output_length")
        session = self._session(value)
        prompt = hashed_prompt(value, self._block_ids, row.line, self._findings)
        if prompt is None:
            return
        note_empty_output(num_output_tokens, row.line, self._findings)
        yield TraceRequest(
            line=row.line,
            arrival_s=arrival_s,
            prompt=prompt,
            num_output_tokens=num_output_tokens,
            session=session,
        )

    def _session(self, value: dict[str, Any]) -> str:
        """The chat that the conversation began with. Some exports write ids as text, and no parent as null."""
        chat = int(value["chat_id"])
        parent = -1 if value.get("parent_chat_id") is None else int(value["parent_chat_id"])
        root = self._root_chat[chat] = self._root_chat.get(parent, parent if parent >= 0 else chat)
        return str(root)


def hashed_prompt(
    value: dict[str, Any], block_ids: BlockIds, line: int, findings: Findings, scope: str | None = None
) -> HashedPrompt | None:
    """The prompt of a row with ``input_length`` and ``hash_ids``; ``None``, and a finding, if it is of no use."""
    num_tokens = get_count(value, "input_length")
    ids = value.get("hash_ids")
    if num_tokens is None:
        raise ValueError("input_length is missing")
    if num_tokens == 0:
        findings.add(FindingKind.EMPTY_PROMPT, line)
        return None
    if ids is None:
        findings.add(FindingKind.NO_PREFIX, line)
        return None
    if not isinstance(ids, list):
        raise ValueError("hash_ids must be a list")
    return block_ids.prompt(ids, num_tokens, line, scope)
