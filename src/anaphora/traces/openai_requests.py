"""Logged OpenAI requests: bare bodies, batch input lines, or pairs of request and response.

A batch line is ``{"custom_id", "method", "url", "body"}``. A time may stand beside or in the body, as ``timestamp`` or
``created``: seconds, or ISO 8601.
"""

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, ClassVar

from anaphora.errors import TraceError
from anaphora.traces.base import as_object, note_empty_output
from anaphora.traces.findings import Findings
from anaphora.traces.lines import Row, get_count, get_number, get_text
from anaphora.traces.request import TraceRequest
from anaphora.traces.request_body import prompt_of_body
from anaphora.types import Namespace

_BODY_FIELDS = ("body", "request")
_TIME_FIELDS = ("timestamp", "created")


class OpenAIReader:
    """See the module."""

    name: ClassVar[str] = "openai"
    default_block_size: ClassVar[int | None] = None
    interleaves: ClassVar[bool] = False

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        self._findings = findings

    @staticmethod
    def recognises(value: Any) -> bool:
        if not isinstance(value, dict):
            return False
        return "response" in value or any(name in body_of(value) for name in ("messages", "prompt"))

    def read(self, row: Row) -> Iterable[TraceRequest]:
        value = as_object(row.value)
        body = body_of(value)
        if body is value and "response" in value:
            raise TraceError("batch output has answers without their prompts: give the batch's input file")
        num_output_tokens = _num_output_tokens(value)
        prompt = prompt_of_body(body)
        note_empty_output(num_output_tokens, row.line, self._findings)
        yield TraceRequest(
            line=row.line,
            arrival_s=_arrival_s(value) if body is value else _arrival_s(value) or _arrival_s(body),
            prompt=prompt,
            num_output_tokens=num_output_tokens,
            session=get_text(body, "prompt_cache_key", "user"),
            namespace=Namespace(get_text(body, "cache_salt") or ""),
        )


def body_of(value: dict[str, Any]) -> dict[str, Any]:
    """The request body in a row: the row itself, or what stands in it as ``body`` or ``request``."""
    return next((value[name] for name in _BODY_FIELDS if isinstance(value.get(name), dict)), value)


def _arrival_s(value: dict[str, Any]) -> float | None:
    for name in _TIME_FIELDS:
        if isinstance(value.get(name), str):
            time = datetime.fromisoformat(value[name])
            return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
        if value.get(name) is not None:
            return get_number(value, name)
    return None


def _num_output_tokens(value: dict[str, Any]) -> int | None:
    response = value.get("response")
    answer = response.get("body", response) if isinstance(response, dict) else None
    usage = answer.get("usage") if isinstance(answer, dict) else None
    return get_count(usage, "completion_tokens") if isinstance(usage, dict) else None
