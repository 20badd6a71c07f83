"""From the records of a run with a planted truth to what the lab's own analyses say of it, each beside the truth and
beside the width that theory gives an interval for the same design when the noise is known."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from benchmarks.lab.planted import BLOCK_SIZE, Noise, Planted

from anaphora.lab import statistics
from anaphora.lab.comparison.difference import difference
from anaphora.lab.comparison.quantities import places, quantities_of
from anaphora.lab.experiments import costs, gradient, switch
from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.lab.experiments.summary import of_arm
from anaphora.lab.statistics import Z
from anaphora.lab.token_costs import ALL_TERMS, design
from anaphora.lab.usage import read_usage
from anaphora.traces.records import Arm, RequestRecord, Run

Records = Sequence[RequestRecord]
ARMS: tuple[Arm, ...] = ("off", "on")
BETWEEN_ARMS = "one run: switch, on against off"
BETWEEN_RUNS: Mapping[str, Callable[[int], tuple[str, str]]] = {
    "two runs: switch, median TTFT with caching on": lambda _: ("switch.1500", "ttft_on_p50"),
    "two runs: gradient, median TTFT at one length": lambda length: (f"gradient.{length}", "ttft_on_p50"),
    "two runs: gradient, slope with caching off": lambda _: ("gradient", "slope_off"),
}
"""What is compared, by place and name; one of the gradient's lengths is given."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """``low`` to ``high`` was found for ``truth``; ``width`` is theory's."""

    name: str
    truth: float
    low: float
    high: float
    width: float

    @property
    def covers(self) -> bool:
        """Whether the interval holds the truth."""
        return self.low <= self.truth <= self.high

    @property
    def width_over_theory(self) -> float:
        """How wide the interval is, in widths of theory's."""
        return (self.high - self.low) / self.width


def estimates_of(records: Records, planted: Planted, noise: Noise, seed: int) -> Iterator[Estimate]:
    """Of each experiment that the records hold all parameters that it reports with an interval."""
    for name, estimates in (("gradient", _lines), ("costs", _costs), ("switch", _medians)):
        own = [record for record in records if record.experiment == name]
        if own:
            yield from estimates(own, planted, noise, seed)


def differs(a: Run, b: Run, seed: int) -> dict[str, bool]:
    """Of each figure of two runs, whether the difference is called more than chance."""
    lengths = sorted({record.group for record in a.requests if record.experiment == "gradient"})
    one, other = (quantities_of(places(run)) for run in (a, b))
    keys = {name: key(lengths[len(lengths) // 2]) for name, key in BETWEEN_RUNS.items()}
    return {name: difference(one[key], other[key], seed=seed).is_chance is False for name, key in keys.items()}


def arms_differ(records: Records, seed: int) -> bool:
    """Whether a switch's reduction is called more than chance."""
    interval = switch.analyse(records, seed=seed)["reduction_percent_interval"]["ttft"]
    return not interval["low"] <= 0 <= interval["high"]


def _lines(records: Records, planted: Planted, noise: Noise, seed: int) -> Iterator[Estimate]:
    """Slopes and intercepts; the truth is the line through the times without noise."""
    found = gradient.analyse(records, seed=seed)["fit"]
    for arm in ARMS:
        cells: dict[int, list[tuple[int, int]]] = {}
        for record in of_arm(records, arm):
            cells.setdefault(record.group, []).append(tokens_of(record))
        lengths = np.array([np.median([n + m for n, m in cell]) for cell in cells.values()])
        times = np.array([np.median([planted.ttft_ms(*one) for one in cell]) for cell in cells.values()])
        slope, intercept = statistics.lines_through(lengths, times)
        weights = np.linalg.pinv(np.column_stack([lengths / 1000, np.ones_like(lengths)]))
        variances = [noise.sigma_ms(time) ** 2 / len(cell) for time, cell in zip(times, cells.values(), strict=True)]
        widths = 2 * Z * np.sqrt(weights**2 @ np.array(variances))
        yield _estimate(f"slope, {arm}", float(slope), found[arm]["slope_interval"], widths[0])
        yield _estimate(f"intercept, {arm}", float(intercept), found[arm]["intercept_interval"], widths[1])


def _costs(records: Records, planted: Planted, noise: Noise, seed: int) -> Iterator[Estimate]:
    """The two-variable fit, and the block step, whose truth is that of the times without noise."""
    found = costs.analyse(records, seed=seed)
    measured = of_arm(records, "on")
    grid = np.array([tokens_of(record) for record in measured if record.label != STAIRCASE], dtype=float)
    columns = design(grid[:, 0], grid[:, 1])
    widths = _least_widths(columns, np.array([noise.sigma_ms(planted.ttft_ms(*one)) for one in grid]))
    for name, truth, width in zip(ALL_TERMS, astuple(planted), widths, strict=True):
        yield _estimate(name, truth, found["two_variable"]["terms"][name]["interval"], width)
    stairs = [tokens_of(record) for record in measured if record.label == STAIRCASE]
    times = np.array([planted.ttft_ms(*one) for one in stairs])
    steps = np.array([(1, n + m, m // BLOCK_SIZE) for n, m in stairs], dtype=float)
    saved = -float(np.linalg.lstsq(steps, times, rcond=None)[0][2])
    width = _least_widths(steps, np.array([noise.sigma_ms(time) for time in times]))[2]
    yield _estimate("block step", saved, found["staircase"]["step_ms_interval"], width)


def _medians(records: Records, planted: Planted, noise: Noise, seed: int) -> Iterator[Estimate]:
    """The medians of a switch, and the reduction between them."""
    found = switch.analyse(records, seed=seed)
    medians, errors = {}, {}
    for arm in ARMS:
        times = np.array([planted.ttft_ms(*tokens_of(record)) for record in of_arm(records, arm)])
        medians[arm], errors[arm] = float(np.median(times)), _error_of_median(times, noise)
        yield _estimate(f"median TTFT, {arm}", medians[arm], found[arm]["ttft_ms_interval"], 2 * Z * errors[arm])
    ratio = medians["on"] / medians["off"]
    width = 2 * Z * 100 * ratio * np.hypot(errors["off"] / medians["off"], errors["on"] / medians["on"])
    yield _estimate("reduction", (1 - ratio) * 100, found["reduction_percent_interval"]["ttft"], width)


def _error_of_median(times: np.ndarray[Any, Any], noise: Noise) -> float:
    """Standard error of a median of as many, by the density at it: that of noise around questions that differ."""
    sigmas = np.array([noise.sigma_ms(time) for time in times])
    distances = (np.median(times) - times) / sigmas
    density = float(np.mean(np.exp(-(distances**2) / 2) / sigmas)) / np.sqrt(2 * np.pi)
    return float(1 / (2 * density * np.sqrt(len(times))))


def tokens_of(record: RequestRecord) -> tuple[int, int]:
    """Computed and cached tokens of an answer that tells both."""
    usage = read_usage(record.usage)
    assert usage.num_prompt_tokens is not None
    assert usage.num_cached_tokens is not None
    return usage.num_prompt_tokens - usage.num_cached_tokens, usage.num_cached_tokens


def _least_widths(design: np.ndarray[Any, Any], sigmas: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Full widths at 95 % of the best linear estimate when every standard deviation is known."""
    weighted = design / sigmas[:, None]
    return np.asarray(2 * Z * np.sqrt(np.diag(np.linalg.inv(weighted.T @ weighted))))


def _estimate(name: str, truth: float, interval: Mapping[str, float], width: float) -> Estimate:
    return Estimate(name, truth, interval["low"], interval["high"], float(width))
