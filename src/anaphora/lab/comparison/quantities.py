"""The figures of a run that can be compared, each as a function of the samples behind it.

A figure is named by place and name: ``gradient.1024.ttft_on_p50`` is the median TTFT of the on arm at 1024 tokens,
``gradient.slope_on`` the slope over all lengths. What was not measured, or by too few samples, is absent.
"""

import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Literal

import numpy as np

from anaphora.lab import statistics
from anaphora.lab.comparison.quantity import Cell, Quantity, Statistic
from anaphora.lab.comparison.token_costs import PLACE as COSTS
from anaphora.lab.comparison.token_costs import quantities_of_costs
from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.lab.experiments.summary import of_arm
from anaphora.lab.group_names import group_name
from anaphora.lab.statistics import Samples
from anaphora.lab.timings import e2e_ms, tpot_ms, ttft_ms
from anaphora.lab.witnesses import cached_tokens, prompt_tokens
from anaphora.traces.records import Arm, RequestRecord, Run

Value = Callable[[RequestRecord], float | None]

LINES_OF = "gradient"
"""The experiment whose groups are lengths, so that lines can be laid through them."""
ARMS: tuple[Arm, ...] = ("off", "on")
_TIMES: Mapping[str, Value] = {"ttft": ttft_ms, "e2e": e2e_ms, "tpot": tpot_ms}
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def places(run: Run) -> dict[str, list[RequestRecord]]:
    """The measured records of each experiment and group, by ``EXPERIMENT.GROUP``, in letters that a condition may
    hold. The staircase of the costs, whose prompts have many lengths, is none."""
    found: dict[str, list[RequestRecord]] = {}
    for record in run.requests:
        if record.phase == "measured" and not (record.experiment == COSTS and record.label == STAIRCASE):
            name = re.sub(r"[^\w\-]+", "-", group_name(record))
            found.setdefault(f"{record.experiment}.{name}", []).append(record)
    return found


def quantities_of(by_place: Mapping[str, Sequence[RequestRecord]]) -> dict[tuple[str, str], Quantity]:
    """Every figure by place and name, in reading order."""
    found = [quantity for place, records in by_place.items() for quantity in _of_place(place, records)]
    lengths = {place: records for place, records in by_place.items() if place.startswith(f"{LINES_OF}.")}
    found += _of_lines(list(lengths.values()))
    found += quantities_of_costs([list(own) for place, own in by_place.items() if place.startswith(f"{COSTS}.")])
    return {(quantity.place, quantity.name): quantity for quantity in found}


def _of_place(place: str, records: Sequence[RequestRecord]) -> list[Quantity]:
    found: list[Quantity] = []
    for name, value in _times_of(records).items():
        cells = {arm: _cell(of_arm(records, arm), value) for arm in ARMS}
        for arm, cell in cells.items():
            for quantile, fraction in _QUANTILES.items():
                if len(cell.keys) * (1 - fraction) >= 1:
                    found.append(Quantity(place, f"{name}_{arm}_{quantile}", "ms", (cell,), _quantile(fraction)))
        pairs = _pairs(records, value)
        if pairs.keys and name != "tpot":
            found.append(Quantity(place, f"{name}_reduction", "%", (pairs,), _reduction))
    for arm in ARMS:
        served = _cell(of_arm(records, arm), cached_tokens, prompt_tokens)
        if served.keys:
            found.append(Quantity(place, f"hit_rate_{arm}", "%", (served,), _share))
        failed = _cell(of_arm(records, arm), lambda r: float(r.error is not None), lambda r: 1.0)
        if failed.keys:
            found.append(Quantity(place, f"failed_{arm}", "%", (failed,), _share))
    return found


def _times_of(records: Sequence[RequestRecord]) -> Mapping[str, Value]:
    """Of an answer of one token, E2E says nothing that TTFT does not."""
    has_more = any(r.max_tokens > 1 or not r.streamed for r in records)
    return _TIMES if has_more else {"ttft": ttft_ms}


def _of_lines(groups: Sequence[Sequence[RequestRecord]]) -> list[Quantity]:
    """Slopes and intercepts through the medians of the lengths, as the experiment itself fits them."""
    found: list[Quantity] = []
    for arm in ARMS:
        lines = _lengths(groups, lambda records, arm=arm: _cell(of_arm(records, arm), ttft_ms))  # type: ignore[misc]
        if lines is not None:
            tokens, cells = lines
            found.append(Quantity(LINES_OF, f"slope_{arm}", "ms/1000 tokens", cells, _line(tokens, 0)))
            found.append(Quantity(LINES_OF, f"intercept_{arm}", "ms", cells, _line(tokens, 1)))
    pairs = _lengths(groups, lambda records: _pairs(records, ttft_ms))
    if pairs is not None:
        found.append(Quantity(LINES_OF, "slope_reduction", "%", pairs[1], _slope_reduction(pairs[0])))
    return found


def _lengths(
    groups: Sequence[Sequence[RequestRecord]], cell_of: Callable[[Sequence[RequestRecord]], Cell]
) -> tuple[Samples, tuple[Cell, ...]] | None:
    """Median prompt tokens and samples of each length that has both; ``None`` unless two lengths differ."""
    known = []
    for records in groups:
        counts = [count for record in records if (count := prompt_tokens(record)) is not None]
        cell = cell_of(records)
        if counts and cell.keys:
            known.append((float(np.median(counts)), cell))
    tokens = np.asarray([count for count, _ in known])
    return None if len(known) < 2 or np.ptp(tokens) == 0 else (tokens, tuple(cell for _, cell in known))


def _cell(records: Sequence[RequestRecord], *values: Value) -> Cell:
    """The records for which every value is known."""
    rows = [(_key(record), [value(record) for value in values]) for record in records]
    known = [(key, row) for key, row in rows if None not in row]
    return Cell(tuple(key for key, _ in known), np.asarray([row for _, row in known], dtype=float))


def _pairs(records: Sequence[RequestRecord], value: Value) -> Cell:
    """Off and on side by side, where both are known."""
    arms = {arm: {_key(record): value(record) for record in of_arm(records, arm)} for arm in ARMS}
    both = [(key, off, arms["on"].get(key)) for key, off in arms["off"].items()]
    known = [(key, (off, on)) for key, off, on in both if off is not None and on is not None]
    return Cell(tuple(key for key, _ in known), np.asarray([row for _, row in known], dtype=float))


def _key(record: RequestRecord) -> Hashable:
    return record.index, record.label


def _quantile(fraction: float) -> Statistic:
    return lambda cells: np.asarray(np.quantile(cells[0][..., 0], fraction, axis=-1))


def _reduction(cells: Sequence[Samples]) -> Samples:
    medians = np.median(cells[0], axis=-2)
    return np.asarray((1 - medians[..., 1] / medians[..., 0]) * 100)


def _share(cells: Sequence[Samples]) -> Samples:
    parts, wholes = cells[0][..., 0].sum(axis=-1), cells[0][..., 1].sum(axis=-1)
    return np.asarray(100 * parts / wholes)


def _line(tokens: Samples, number: Literal[0, 1]) -> Statistic:
    """0: the slope per thousand tokens; 1: the intercept."""

    def statistic(cells: Sequence[Samples]) -> Samples:
        medians = np.stack([np.median(rows[..., 0], axis=-1) for rows in cells], axis=-1)
        return statistics.lines_through(tokens, medians)[number]

    return statistic


def _slope_reduction(tokens: Samples) -> Statistic:
    def statistic(cells: Sequence[Samples]) -> Samples:
        medians = np.stack([np.median(rows, axis=-2) for rows in cells], axis=-1)
        slopes, _ = statistics.lines_through(tokens, medians)
        return np.asarray((1 - slopes[..., 1] / slopes[..., 0]) * 100)

    return statistic
