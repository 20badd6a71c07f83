"""One question to a server and its answer."""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """How a check went."""

    OK = "ok"
    WARNING = "warning"
    """It works, but something that one would want to know is hidden or limited."""
    FAULT = "fault"
    NOT_APPLICABLE = "not applicable"
    """The question makes no sense here, or what it rests on failed."""


@dataclass(frozen=True, slots=True)
class Check:
    """``seen``: what was observed, in one sentence. ``fix``: what to do about it; empty where there is nothing."""

    name: str
    status: Status
    seen: str
    fix: str = ""


def ok(name: str, seen: str) -> Check:
    """All is well."""
    return Check(name, Status.OK, seen)


def warning(name: str, seen: str, fix: str) -> Check:
    """It works, with a limit."""
    return Check(name, Status.WARNING, seen, fix)


def fault(name: str, seen: str, fix: str) -> Check:
    """It does not work."""
    return Check(name, Status.FAULT, seen, fix)


def not_applicable(name: str, why: str) -> Check:
    """Nothing to be asked here."""
    return Check(name, Status.NOT_APPLICABLE, why)
