"""Prompts as token ids, one request a line: the form that leaves no doubt about templates and tokenizers.

A line is a list of ids, or an object with ``prompt_token_ids`` (also ``token_ids``, ``input_ids``) and, where known,
``timestamp`` (ms) or ``arrival_s``, ``output_token_ids`` or ``output_length``, ``session_id``, and ``namespace`` or
``cache_salt``.
"""

from collections.abc import Iterable
from typing import Any, ClassVar

from anaphora.traces.base import as_object, note_empty_output
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import Row, get_count, get_number, get_text
from anaphora.traces.request import TokenPrompt, TraceRequest
from anaphora.traces.request_body import token_ids
from anaphora.types import Namespace

_PROMPT_FIELDS = ("prompt_token_ids", "token_ids", "input_ids")
MS_PER_S = 1000.0


class TokenIdReader:
    """See the module."""

    name: ClassVar[str] = "token-ids"
    default_block_size: ClassVar[int | None] = None
    interleaves: ClassVar[bool] = False

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        self._findings = findings

    @staticmethod
    def recognises(value: Any) -> bool:
        if isinstance(value, list):
            return all(isinstance(token_id, int) for token_id in value)
        return isinstance(value, dict) and any(name in value for name in _PROMPT_FIELDS)

    def read(self, row: Row) -> Iterable[TraceRequest]:
        value = {"token_ids": row.value} if isinstance(row.value, list) else as_object(row.value)
        ids = token_ids(next((value[name] for name in _PROMPT_FIELDS if name in value), None))
        output = value.get("output_token_ids")
        output_ids = None if output is None else token_ids(output)
        num_output_tokens = get_count(value, "output_length") if output_ids is None else len(output_ids)
        arrival_s, timestamp_ms = get_number(value, "arrival_s"), get_number(value, "timestamp")
        if arrival_s is None and timestamp_ms is not None:
            arrival_s = timestamp_ms / MS_PER_S
        if not ids:
            self._findings.add(FindingKind.EMPTY_PROMPT, row.line)
            return
        note_empty_output(num_output_tokens, row.line, self._findings)
        yield TraceRequest(
            line=row.line,
            arrival_s=arrival_s,
            prompt=TokenPrompt(ids),
            num_output_tokens=num_output_tokens,
            output_token_ids=output_ids,
            session=get_text(value, "session_id"),
            namespace=Namespace(get_text(value, "namespace", "cache_salt") or ""),
        )
