"""What a probe found: a value, how it is bounded, how sure that is, and what was seen."""

from dataclasses import dataclass
from enum import StrEnum


class Confidence(StrEnum):
    """How sure a finding is."""

    COUNTED = "counted"
    """It follows from token counts that the server told."""
    LIKELY = "likely"
    """It rests on statistics; ``error_chance`` says how likely it is wrong."""
    UNKNOWN = "cannot be told"


class Bound(StrEnum):
    """How a finding's value stands to the true one."""

    EXACT = "exact"
    ABOUT = "about"
    """``low`` and ``high`` hold the true value."""
    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One answer. ``value`` is a number of ``unit`` or one of a few words; ``None``: it cannot be told, and
    ``evidence`` says why."""

    name: str
    question: str
    value: float | str | None
    confidence: Confidence
    evidence: str
    unit: str = ""
    bound: Bound = Bound.EXACT
    low: float | None = None
    high: float | None = None
    error_chance: float | None = None
    published: str | None = None
    """What the server itself says of it, with its unit, if it does."""

    @property
    def answer(self) -> str:
        """The value in words."""
        if self.value is None:
            return Confidence.UNKNOWN.value
        if isinstance(self.value, str):
            return self.value
        number = _in_words(self.value)
        unit = self.unit.removesuffix("s") if self.value == 1 else self.unit
        words = f"{number} {unit}".strip()
        if self.bound is Bound.ABOUT and self.low is not None and self.high is not None:
            return f"{_in_words(self.low)} to {_in_words(self.high)} {self.unit}"
        return words if self.bound is Bound.EXACT else f"{self.bound} {words}"


def _in_words(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def unknown(name: str, question: str, why: str) -> Finding:
    """No answer, and why there is none."""
    return Finding(name=name, question=question, value=None, confidence=Confidence.UNKNOWN, evidence=why)
