"""The order of the checks. One that fails and on which others rest ends the visit; the rest is not applicable."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext

from anaphora.errors import TargetError
from anaphora.lab.doctor import access, answers, counters, hits
from anaphora.lab.doctor.check import Check, Status, fault, not_applicable
from anaphora.lab.doctor.visit import Visit

CheckFunction = Callable[[Visit], Awaitable[Check]]

_IN_ORDER: tuple[tuple[str, CheckFunction, bool], ...] = (
    ("reachable", access.reachable, True),
    ("address", access.address, True),
    ("key", access.key, True),
    ("model", access.model, True),
    ("kind of server", counters.kind, False),
    ("answer", answers.answer, True),
    ("stream", answers.stream, False),
    ("usage", answers.usage, False),
    ("metrics", counters.metrics, False),
    (hits.NAME, hits.prefix_cache, False),
)
"""Name, check, and whether all that follow rest on it."""


async def examine(
    visit: Visit,
    on_check: Callable[[Check], None] = lambda _: None,
    during: Callable[[str], AbstractContextManager[None]] = lambda _: nullcontext(),
) -> list[Check]:
    """All checks of a server; each is made ``during(name)``, and is told to ``on_check`` as it is done."""
    checks: list[Check] = []
    failed = ""
    for name, check, is_vital in _IN_ORDER:
        if failed:
            checks.append(not_applicable(name, f"rests on: {failed}"))
            continue
        with during(name):
            found = await _ask(name, check, visit)
        checks.append(found)
        on_check(found)
        if is_vital and found.status is Status.FAULT:
            failed = name
    return checks


async def _ask(name: str, check: CheckFunction, visit: Visit) -> Check:
    """The check, or a fault in the words of the error that it met: first what was seen, then what to do."""
    try:
        return await check(visit)
    except TargetError as error:
        seen, _, fix = str(error).rpartition(": ")
        return fault(name, seen or str(error), fix if seen else "look into the server's log")
