"""Two runs from their records to the list of differences: a pure function, so that it comes out the same again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anaphora.errors import ConfigError
from anaphora.lab.comparison.comparable import obstacles, place_obstacle, remarks
from anaphora.lab.comparison.conditions import Condition
from anaphora.lab.comparison.difference import Difference, as_json, difference
from anaphora.lab.comparison.quantities import places, quantities_of
from anaphora.traces.records import RequestRecord, Run

Places = Mapping[str, Sequence[RequestRecord]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """``remarks``: what else differs between the runs. ``left_out``: places that only one run has, or that are not
    alike, with the reason."""

    differences: tuple[Difference, ...]
    remarks: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A condition, and the figures that meet it: none, and the gate is open."""

    condition: str
    met_by: tuple[str, ...]


def compare(a: Run, b: Run, *, anyway: bool = False, seed: int = 0) -> Comparison:
    """Every figure that both runs have.

    Raises:
        ConfigError: the runs answer different questions, or have no place in common. ``anyway`` makes the former a
            remark.
    """
    against = obstacles(a, b)
    if against and not anyway:
        raise ConfigError(f"these runs cannot be compared: {'; '.join(against)} (--anyway compares them all the same)")
    ours, theirs = places(a), places(b)
    left_out = _unlike(ours, theirs)
    alike = [place for place in ours if place not in left_out]
    if not alike:
        why = "; ".join(map(": ".join, left_out.items())) or "both are empty"
        raise ConfigError(f"these runs have nothing in common that could be compared: {why}")
    one = quantities_of({place: ours[place] for place in alike})
    other = quantities_of({place: theirs[place] for place in alike})
    differences = [difference(one[key], other[key], seed=seed) for key in one if key in other]
    return Comparison(
        tuple(differences), (*against, *remarks(a, b)), tuple(f"{place}: {why}" for place, why in left_out.items())
    )


def _unlike(ours: Places, theirs: Places) -> dict[str, str]:
    """Places that cannot be compared, with the reason."""
    found = {place: "only in A" for place in ours if place not in theirs}
    found |= {place: "only in B" for place in theirs if place not in ours}
    for place in (place for place in ours if place in theirs):
        reason = place_obstacle(ours[place], theirs[place])
        if reason is not None:
            found[place] = reason
    return found


def judge(comparison: Comparison, conditions: Sequence[Condition]) -> list[Verdict]:
    """Every condition with the figures that meet it."""
    return [
        Verdict(
            condition.text,
            tuple(one.full_name for one in condition.chosen(comparison.differences) if condition.is_met(one)),
        )
        for condition in conditions
    ]


def comparison_as_json(comparison: Comparison, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """What ``anaphora compare --json`` prints."""
    return {
        "differences": [as_json(one) for one in comparison.differences],
        "remarks": list(comparison.remarks),
        "left_out": list(comparison.left_out),
        "conditions": [asdict(verdict) for verdict in verdicts],
    }
