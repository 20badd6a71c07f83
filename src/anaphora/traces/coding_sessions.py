"""Recorded sessions of a coding agent, one session a line, with sub-agents inside.

``requests`` have ``t`` (seconds since the session began; a sub-agent's since the sub-agent began), ``in`` and ``out``
tokens, and ``hash_ids``, one for every full block of ``block_size`` tokens. Ids are local to the session, and when a
session began is not told: all begin at 0.
"""

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from anaphora.errors import TraceError
from anaphora.traces.base import as_object, note_empty_output
from anaphora.traces.block_ids import BlockIds
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import Row, get_count, get_number
from anaphora.traces.mooncake import hashed_prompt
from anaphora.traces.request import TraceRequest


class CodingSessionReader:
    """See the module."""

    name: ClassVar[str] = "coding-sessions"
    default_block_size: ClassVar[int | None] = 64
    interleaves: ClassVar[bool] = True

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        assert block_size is not None
        self._block_ids = BlockIds(block_size, findings)
        self._block_size = block_size
        self._findings = findings

    @staticmethod
    def recognises(value: Any) -> bool:
        return isinstance(value, dict) and isinstance(value.get("requests"), list) and "block_size" in value

    def read(self, row: Row) -> Iterable[TraceRequest]:
        session = as_object(row.value)
        if session["block_size"] != self._block_size:
            said = session["block_size"]
            raise TraceError(f"the sessions say block_size {said}: give --trace-block-size {said}")
        is_local = session.get("hash_id_scope", "local") == "local"
        if is_local:
            self._findings.add(FindingKind.SESSION_IDS, row.line)
        name = str(session.get("id", row.line))
        yield from self._requests(session["requests"], 0.0, row.line, name, name if is_local else None)

    def _requests(
        self, items: list[Any], begin_s: float, line: int, session: str, scope: str | None
    ) -> Iterator[TraceRequest]:
        for item in items:
            value = as_object(item)
            since_s = get_number(value, "t")
            arrival_s = None if since_s is None else begin_s + since_s
            if value.get("type") == "subagent":
                yield from self._requests(value.get("requests", []), arrival_s or begin_s, line, session, scope)
                continue
            fields = {"input_length": value.get("in"), "hash_ids": value.get("hash_ids")}
            num_output_tokens = get_count(value, "out")
            prompt = hashed_prompt(fields, self._block_ids, line, self._findings, scope)
            if prompt is None:
                continue
            note_empty_output(num_output_tokens, line, self._findings)
            yield TraceRequest(
                line=line,
                arrival_s=arrival_s,
                prompt=prompt,
                num_output_tokens=num_output_tokens,
                session=session,
            )
