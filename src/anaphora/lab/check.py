"""One question to a run, answered from its records."""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "warning", "unknown"]


@dataclass(frozen=True, slots=True)
class Check:
    """``seen``: what the answer rests on. ``unknown``: the target does not show what would answer it."""

    name: str
    status: Status
    seen: str
