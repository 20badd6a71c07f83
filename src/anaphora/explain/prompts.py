"""A log of requests, each compared with the earlier one that shares the longest beginning with it."""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaphora.errors import TraceError
from anaphora.explain.divergence import Divergence, divergence
from anaphora.explain.parts import Part, parts_of, shared_length
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import json_rows
from anaphora.traces.openai_requests import body_of

_BORDER = "\x00"
"""Between two parts of a request, so that texts of different parts are never compared with one another."""


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """One request of a log. ``line`` counts from 1."""

    line: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A request and the nearest earlier one, with the place where they part."""

    line: int
    earlier_line: int
    divergence: Divergence


@dataclass(frozen=True, slots=True)
class Group:
    """Requests that part from earlier ones at the same place for the same reason. ``num_lost``: characters after it."""

    path: str
    cause: str
    cure: str
    is_natural: bool
    lines: tuple[int, ...]
    num_lost: int
    num_chars: int
    example: Comparison


def read_requests(path: Path, findings: Findings) -> list[LoggedRequest]:
    """The requests of a file of OpenAI request bodies or batch lines, one a line; other lines are counted.

    Raises :class:`TraceError` if it holds none.
    """
    requests = []
    for row in json_rows(path, findings):
        body = body_of(row.value) if isinstance(row.value, dict) else {}
        fault = _fault_of(body)
        if fault is None:
            requests.append(LoggedRequest(row.line, body))
        else:
            findings.add(FindingKind.DAMAGED, row.line, fault)
    if not requests:
        found = "; ".join(str(finding) for finding in findings.all()) or "it is empty"
        raise TraceError(
            f"{path} holds no request ({found}): give a JSON line for each, with messages or a prompt in it"
        )
    return requests


def _fault_of(body: Mapping[str, Any]) -> str | None:
    """Why ``body`` is no request whose texts can be compared, or ``None`` if it is one."""
    messages, prompt, tools = (body.get(name) for name in ("messages", "prompt", "tools"))
    if not messages and not prompt:
        return "neither messages nor a prompt"
    if messages and not (isinstance(messages, list) and all(isinstance(one, dict) for one in messages)):
        return "messages must be a list of objects"
    if prompt and not isinstance(prompt, str | list):
        return "prompt must be a text or a list"
    return None if not tools or isinstance(tools, list) else "tools must be a list"


def compare(requests: Iterable[LoggedRequest]) -> list[Comparison]:
    """Every request but the first with the earlier one that it shares most with; of equals, with the latest.

    In the order of their texts the nearest is a neighbour, so a log of n requests takes about n log n comparisons.
    """
    texts: list[str] = []
    ranked: list[tuple[LoggedRequest, tuple[Part, ...]]] = []
    found = []
    for request in requests:
        parts = parts_of(request.body)
        text = _BORDER.join(f"{part.path}{_BORDER}{part.text}" for part in parts)
        place = bisect_left(texts, text)
        nearest = _nearest(texts, text, place)
        if nearest is not None:
            earlier, earlier_parts = ranked[nearest]
            found.append(Comparison(request.line, earlier.line, divergence(earlier_parts, parts)))
        texts.insert(place, text)
        ranked.insert(place, (request, parts))
    return found


def _nearest(texts: Sequence[str], text: str, place: int) -> int | None:
    neighbours = [i for i in (place, place - 1) if 0 <= i < len(texts)]
    return max(neighbours, key=lambda i: shared_length(texts[i], text), default=None)


def group(comparisons: Iterable[Comparison]) -> list[Group]:
    """Comparisons by place and cause, the costliest first; natural ones last."""
    members: dict[tuple[str, str], list[Comparison]] = {}
    for one in comparisons:
        members.setdefault((one.divergence.path, one.divergence.cause.name), []).append(one)
    groups = [
        Group(
            path=path,
            cause=name,
            cure=same[0].divergence.cause.cure,
            is_natural=same[0].divergence.cause.is_natural,
            lines=tuple(one.line for one in same),
            num_lost=sum(one.divergence.num_chars - one.divergence.num_shared for one in same),
            num_chars=sum(one.divergence.num_chars for one in same),
            example=same[0],
        )
        for (path, name), same in members.items()
    ]
    return sorted(groups, key=lambda one: (one.is_natural, -one.num_lost))
