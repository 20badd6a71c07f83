"""``--fail-if 'ttft_on_p50 > +5%'``: a change that must not be, as text, and whether it is.

    CONDITION = NAME ('>' | '<') LIMIT
    NAME      = [EXPERIMENT '.'] [GROUP '.'] FIGURE      a short name means the figure wherever it was measured
    LIMIT     = SIGN NUMBER UNIT                         the change from A to B: of A with %, else in the figure's unit

A condition is met when the change seen is beyond the limit **and** its interval excludes no change at all. It need not
lie beyond the limit as a whole: the limit says which changes matter, the interval whether there was one. A gate that
waited for the whole interval would let a change of exactly the limit pass 39 times in 40, and with few samples nearly
every change.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from anaphora.errors import ConfigError
from anaphora.lab.comparison.difference import Difference

_FORM = "write NAME > +5% or NAME < -3ms; a limit is a change from A to B and needs its sign"
_CONDITION = re.compile(
    r"\s*(?P<name>[\w.\-]+)\s*(?P<sense>[<>])\s*(?P<number>[+\-−]?\d+(\.\d+)?)\s*(?P<unit>%|pp|ms)\s*"
)
_UNITS = {"%": ("ms", "ms/1000 tokens", "ms/(1000 tokens)²"), "ms": ("ms",), "pp": ("%",)}


@dataclass(frozen=True, slots=True)
class Condition:
    """``limit`` in ``unit``: ``%`` of A, ``ms``, or ``pp``, points of a percentage."""

    text: str
    name: str
    sense: Literal["<", ">"]
    limit: float
    unit: str

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Raises :class:`ConfigError` for what is no condition."""
        found = _CONDITION.fullmatch(text)
        if found is None:
            raise ConfigError(f"--fail-if cannot read {text!r}: {_FORM}")
        number = found["number"].replace("−", "-")
        if number[0] not in "+-" and float(number) != 0:
            raise ConfigError(f"--fail-if {text!r}: {_FORM}")
        return cls(text, found["name"], "<" if found["sense"] == "<" else ">", float(number), found["unit"])

    def chosen(self, differences: Sequence[Difference]) -> list[Difference]:
        """The figures that are meant. Raises :class:`ConfigError` if there is none, or if the unit is another."""
        meant = [one for one in differences if f".{one.full_name}".endswith(f".{self.name}") or self._spans(one)]
        if not meant:
            known = ", ".join(dict.fromkeys(one.name for one in differences)) or "none"
            where = ", ".join(dict.fromkeys(one.place for one in differences)) or "nowhere"
            raise ConfigError(f"--fail-if: {self.name} was not measured in both runs; known are {known}, in {where}")
        for one in meant:
            if one.unit not in _UNITS[self.unit]:
                right = " or ".join(unit for unit, kinds in _UNITS.items() if one.unit in kinds)
                raise ConfigError(f"--fail-if {self.text!r}: {one.name} is in {one.unit}, so its limit takes {right}")
        return meant

    def is_met(self, one: Difference) -> bool:
        """Whether the change is beyond the limit, and more than chance. Raises :class:`ConfigError` if that cannot be
        told: a gate that cannot see must not look open."""
        change = one.relative_percent if self.unit == "%" else one.change
        if change is None or one.is_chance is None:
            why = "too few samples" if one.is_chance is None else f"{one.name} is not above 0 in A: give a limit in ms"
            raise ConfigError(f"--fail-if {self.text!r} cannot be judged for {one.full_name}: {why}")
        return not one.is_chance and (change > self.limit if self.sense == ">" else change < self.limit)

    def _spans(self, one: Difference) -> bool:
        """``gradient.ttft_on_p50`` means every length of the gradient."""
        experiment, _, figure = self.name.rpartition(".")
        return one.name == figure and one.place.split(".")[0] == experiment
