"""A client's own requests: do their prompts share a beginning, and do they allow it to be reused?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from anaphora.explain.prompts import Group, LoggedRequest, compare, group, read_requests
from anaphora.lab.doctor.check import Check, fault, not_applicable, ok, warning
from anaphora.traces.findings import Findings

_BADLY = 0.5
"""Share of the text that is computed anew, over the requests that part at one place, from which it is a fault."""


def check_prompts(path: Path) -> list[Check]:
    """Two checks of a file of request bodies: whether a lookup is made for them, and where their prompts part.

    Raises :class:`TraceError` if the file cannot be read or holds no request.
    """
    findings = Findings()
    requests = read_requests(path, findings)
    return [_lookup(requests), _prompts(requests, findings)]


def _lookup(requests: Sequence[LoggedRequest]) -> Check:
    """Log-probabilities of the prompt need the prompt computed: servers look nothing up for them."""
    name = "requests"
    bypassing = [request.line for request in requests if _asks_prompt_logprobs(request.body)]
    if bypassing:
        return fault(
            name,
            f"{len(bypassing)} of {len(requests)} ask for log-probabilities of the prompt (first in line "
            f"{bypassing[0]}): the cache is bypassed for these",
            "leave out prompt_logprobs, or echo together with logprobs, where they are not needed",
        )
    return ok(name, f"none of {len(requests)} asks for what bypasses the cache")


def _asks_prompt_logprobs(body: Mapping[str, Any]) -> bool:
    wants_logprobs = body.get("logprobs") not in (None, False)
    return body.get("prompt_logprobs") is not None or bool(body.get("echo") and wants_logprobs)


def _prompts(requests: Sequence[LoggedRequest], findings: Findings) -> Check:
    name = "prompts"
    left_out = "".join(f" ({finding})" for finding in findings.all() if finding.skips_rows)
    if len(requests) < 2:
        return not_applicable(name, f"one request alone shares nothing{left_out}")
    groups = [one for one in group(compare(requests)) if not one.is_natural]
    if not groups:
        return ok(name, f"{len(requests)} requests part where they are meant to: in the last message{left_out}")
    worst = groups[0]
    further = f"; {len(groups) - 1} more places: `anaphora explain` lists them" if len(groups) > 1 else ""
    seen = f"{_where(worst)}{further}{left_out}"
    share = worst.num_lost / worst.num_chars if worst.num_chars else 0.0
    return (fault if share >= _BADLY else warning)(name, seen, worst.cure)


def _where(one: Group) -> str:
    place = one.example.divergence
    earlier, later = (" ".join(window.split()) for window in place.windows)
    return (
        f"{len(one.lines)} requests part from earlier ones at character {place.at} of {one.path} by {one.cause}, and "
        f"{one.num_lost / one.num_chars:.0%} of their text comes after it: …{earlier}… became …{later}…"
    )
