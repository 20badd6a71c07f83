"""Reading one answer of an OpenAI-compatible server, streamed or not, with the stamp of every token-bearing event.

What counts as a generated token: non-empty content, reasoning, refusal or text, or a tool or function call. A chunk
with only a role, only usage, empty content or no choices stops no clock.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anaphora.lab.dialects.usage_shapes import BESIDE_USAGE
from anaphora.lab.masking import Masking
from anaphora.protocol.sse import DONE, EventStreamDecoder, ServerSentEvent

_GENERATED = ("content", "reasoning_content", "reasoning", "refusal", "tool_calls", "function_call", "text")
_VISIBLE = ("content", "text")


@dataclass(slots=True)
class Answer:
    """What an answer held. Stamps are readings of the client's clock in nanoseconds; ``error`` says why it is no
    success."""

    streamed: bool = False
    first_token_ns: int | None = None
    first_answer_ns: int | None = None
    last_token_ns: int | None = None
    num_token_events: int = 0
    token_events_ns: list[int] = field(default_factory=list)
    """When each of these events arrived."""
    text: str = ""
    finish_reason: str | None = None
    usage: Mapping[str, Any] | None = None
    saw_done: bool = False
    error: str | None = None
    refused_key: bool = False
    """The error is about the key, or that there was none."""


@dataclass(slots=True)
class AnswerReader:
    """A :class:`~anaphora.lab.http.BodySink` that makes an :class:`Answer` of the bytes as they come."""

    answer: Answer = field(default_factory=Answer)
    masking: Masking = field(default_factory=Masking)
    _status: int = 0
    _content_type: str = ""
    _decoder: EventStreamDecoder = field(default_factory=EventStreamDecoder)
    _body: bytearray = field(default_factory=bytearray)
    _last_ns: int = 0

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self._status = status
        self._content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        self.answer.streamed = status == 200 and self._content_type == "text/event-stream"

    def feed(self, ns: int, piece: bytes) -> None:
        self._last_ns = ns
        if self.answer.streamed:
            self._take(ns, self._decoder.feed(piece))
        else:
            self._body += piece

    def finish(self, *, complete: bool) -> Answer:
        """The answer is over; ``complete``: it reached its announced end."""
        answer = self.answer
        if not answer.streamed:
            self._read_whole()
        else:
            self._take(self._last_ns, self._decoder.close())
            if answer.error is None and not answer.saw_done and answer.finish_reason is None:
                answer.error = "the stream ended early: the server stopped, or a proxy in between gave up"
        if not complete and answer.error is None and not answer.saw_done:
            answer.error = "the connection was cut in the middle of the answer"
        answer.text = whole_characters(answer.text)
        answer.error = answer.error if answer.error is None else whole_characters(answer.error)
        return answer

    def _take(self, ns: int, events: list[ServerSentEvent]) -> None:
        for event in events:
            if event.data == DONE:
                self.answer.saw_done = True
            elif event.data.strip():
                self._take_chunk(ns, self.masking.text(event.data))

    def _take_chunk(self, ns: int, data: str) -> None:
        answer = self.answer
        try:
            chunk = json.loads(data)
        except ValueError:
            answer.error = answer.error or f"an event of the stream is not JSON: {shorten(data)}"
            return
        problem = error_in(chunk)
        if problem is not None:
            answer.error = answer.error or problem
            return
        answer.usage = {**(answer.usage or {}), **_accounts(chunk)} or None  # running usage is replaced, never added up
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, Mapping):
                self._take_choice(ns, choice)

    def _take_choice(self, ns: int, choice: Mapping[str, Any]) -> None:
        answer = self.answer
        answer.finish_reason = _reason_in(choice) or answer.finish_reason
        delta = _part_of(choice, "delta")
        if not any(delta.get(name) for name in _GENERATED):
            return
        answer.num_token_events += 1
        answer.token_events_ns.append(ns)
        answer.first_token_ns = answer.first_token_ns or ns
        answer.last_token_ns = ns
        visible = visible_text(delta)
        if visible:
            answer.first_answer_ns = answer.first_answer_ns or ns
            answer.text += visible

    def _read_whole(self) -> None:
        answer, body = self.answer, self.masking.data(bytes(self._body))
        try:
            value = json.loads(body)
        except ValueError:
            answer.error = no_json(self._status, self._content_type, body)
            return
        answer.error = error_in(value, self._status)
        if answer.error is not None:
            return
        choices = value.get("choices")
        if not (isinstance(choices, list) and choices and isinstance(choices[0], Mapping)):
            answer.error = _without_choices(value)
            return
        answer.usage = _accounts(value) or None
        answer.finish_reason = _reason_in(choices[0])
        answer.text = visible_text(_part_of(choices[0], "message"))


def _reason_in(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) else None


def _part_of(choice: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The message or delta of a choice; the choice itself where it has none, as in text completions."""
    part = choice.get(name)
    return part if isinstance(part, Mapping) and part else choice


def _accounts(value: Mapping[str, Any]) -> dict[str, Any]:
    """``usage``, with what some servers write beside it; empty if there is neither."""
    usage = value.get("usage")
    beside = {name: value[name] for name in BESIDE_USAGE if isinstance(value.get(name), Mapping)}
    return {**(usage if isinstance(usage, Mapping) else {}), **beside}


def visible_text(message: Mapping[str, Any]) -> str:
    """The part of a message or delta that a reader of the answer sees."""
    return "".join(value for name in _VISIBLE if isinstance(value := message.get(name), str))


def _without_choices(value: Mapping[str, Any]) -> str:
    others = ", ".join(sorted(value.keys() - {"choices"})) or "(none)"
    if "choices" not in value:
        return f"the answer has no choices; it has the keys {others}"
    return (
        f"the answer is no completion: choices is {shorten(json.dumps(value['choices']))}; its other keys are {others}"
    )


def error_in(value: object, status: int = 200) -> str | None:
    """The server's own words if a JSON value is an error and no completion; status 200 proves nothing."""
    if not isinstance(value, Mapping):
        return f"the answer is JSON but no object: {shorten(json.dumps(value))}"
    error = value.get("error") or (value if value.get("object") == "error" else None)
    if isinstance(error, Mapping):
        error = error.get("message") or json.dumps(error)
    if error is None and status != 200:
        error = value.get("message") or value.get("detail") or json.dumps(value)
    return None if error is None else f"{'' if status == 200 else f'HTTP {status}: '}{shorten(str(error))}"


def no_json(status: int, content_type: str, body: bytes) -> str:
    """Why a body that is not JSON cannot be a completion."""
    text = body.decode("utf-8", "replace").strip()
    if "html" in content_type or text[:1] == "<":
        return f"HTTP {status} with a web page instead of JSON: is this the API's address, and its path?"
    if not text:
        return f"HTTP {status} with an empty body"
    return f"HTTP {status} with something that is not JSON: {shorten(text)}"


def whole_characters(text: str) -> str:
    """Text that can be written down: halves of a surrogate pair, which some gateways send in two events, are put
    together, and one that stays alone is marked as unreadable."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shorten(text: str, limit: int = 200) -> str:
    """One line of at most ``limit`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
