"""A latency model from measurements: least squares of relative errors, with coefficients that are not negative.

Relative, because a model that is 30 ms off at a hit of 60 ms is of no use, and at a prefill of 6 s nobody sees it.
A measurement counts by the root of how many requests it is the median of, and less the farther it is off: something
else may have held a server up, and what was measured once cannot show it (Huber, Annals of Mathematical Statistics 35,
1964).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from anaphora.errors import ConfigError
from anaphora.sim.latency import LatencyModel, StepWork

FITTED = ("overhead_ms", "step_ms", "computed_ms_per_ktoken", "read_ms_per_ktoken", "attention_ms_per_mpair")
"""``request_ms`` is not among them: where one request is measured after another, each step holds one."""
_SMALLEST_SINGULAR_VALUE = 1e-2
"""Of columns of length 1: below that, what a combination of coefficients does is lost in a deviation of a per cent."""
_LEAST_SHARE = 0.2
_USUAL_ERRORS = 1.5
"""So many typical errors may a measurement be off before it counts less."""
_LEAST_ERROR = 0.01
"""Share of a measurement: a typical error below that is not told from 0."""
_NORMAL = 1.4826
"""Standard deviations of normal noise in its median size."""
_ROUNDS = 20
_ADVICE = {
    "overhead_ms": "times between tokens: `anaphora bench switch`",
    "step_ms": "times between tokens: `anaphora bench switch`",
    "computed_ms_per_ktoken": "cold prompts of several lengths: `anaphora bench gradient`",
    "read_ms_per_ktoken": "hits of several lengths: `anaphora bench costs`",
    "attention_ms_per_mpair": "cold prompts of at least three lengths, one of 2000 tokens or more: "
    "`anaphora bench gradient --lengths 256,1024,3072`",
}


class Observation(NamedTuple):
    """A duration that was measured, and what was done in it.

    ``num_overheads``: 1 if it holds a request's way to the engine and back (a TTFT), 0 if not (a time between tokens).
    ``num_requests``: of how many requests it is the median.
    """

    what: str
    measured_ms: float
    num_overheads: int
    work: StepWork
    num_requests: int = 1


@dataclass(frozen=True, slots=True)
class Residual:
    """What was measured, and what the model says to it."""

    what: str
    measured_ms: float
    fitted_ms: float

    @property
    def relative(self) -> float:
        """By how much the model is above (or, negative, below) the measurement, as a share of it."""
        return self.fitted_ms / self.measured_ms - 1


@dataclass(frozen=True, slots=True)
class LatencyFit:
    """A model and how well it says again what it was made from."""

    model: LatencyModel
    residuals: tuple[Residual, ...]

    @property
    def mean_relative_error(self) -> float:
        """Mean of the residuals' sizes, as a share of what was measured."""
        return sum(abs(residual.relative) for residual in self.residuals) / len(self.residuals)

    def to_json(self) -> dict[str, Any]:
        """Residuals in milliseconds and per cent."""
        return {
            "mean_relative_error": self.mean_relative_error,
            "not_fitted": ["request_ms"],
            "residuals": [
                {
                    "what": one.what,
                    "measured_ms": one.measured_ms,
                    "fitted_ms": one.fitted_ms,
                    "percent": 100 * one.relative,
                }
                for one in self.residuals
            ],
        }


def fit_latency(observations: Sequence[Observation]) -> LatencyFit:
    """The model that is closest to what was observed.

    Raises:
        ConfigError: the observations leave a coefficient open; the message says what to measure.
    """
    if not observations:
        raise ConfigError("there is nothing to fit a latency model to: run `anaphora bench` (switch and gradient)")
    measured = np.array([one.measured_ms for one in observations])
    rows = np.array([_row(one) for one in observations])
    relative = rows / measured[:, None]
    _expect_determined(relative)
    solution = _robust(relative, np.sqrt([one.num_requests for one in observations]))
    model = LatencyModel(**dict(zip(FITTED, map(float, solution), strict=True)))
    fitted = rows @ solution
    return LatencyFit(
        model,
        tuple(
            Residual(one.what, one.measured_ms, float(value)) for one, value in zip(observations, fitted, strict=True)
        ),
    )


def _robust(relative: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Coefficients that make ``relative @ coefficients`` about 1, whatever a few rows say."""
    trust = np.ones(len(relative))
    for _ in range(_ROUNDS):
        by = weights * trust
        solution, _ = nnls(relative * by[:, None], by)
        errors = np.abs(relative @ solution - 1) * weights
        usual = _USUAL_ERRORS * max(_LEAST_ERROR, _NORMAL * float(np.median(errors)))
        trust = np.sqrt(np.minimum(1, usual / np.maximum(errors, usual)))
    coefficients: npt.NDArray[np.float64] = solution
    return coefficients


def _row(one: Observation) -> tuple[float, ...]:
    """Its factors of the coefficients, in the order of ``FITTED``."""
    work = one.work
    return (
        one.num_overheads,
        work.num_steps,
        work.num_computed_tokens / 1e3,
        work.num_read_tokens / 1e3,
        work.num_attention_pairs / 1e6,
    )


def _expect_determined(rows: npt.NDArray[np.float64]) -> None:
    """Refuse rows [observations, coefficients] of which some combination of coefficients leaves no trace."""
    lengths = np.linalg.norm(rows, axis=0)
    unseen = [name for name, length in zip(FITTED, lengths, strict=True) if length == 0]
    if not unseen:
        _, sizes, combinations = np.linalg.svd(rows / lengths)
        sizes = np.pad(sizes, (0, len(FITTED) - len(sizes)))
        for size, combination in zip(sizes, combinations, strict=True):
            if size < _SMALLEST_SINGULAR_VALUE:
                shares = zip(FITTED, np.abs(combination), strict=True)
                unseen += [name for name, share in shares if share > _LEAST_SHARE and name not in unseen]
    if unseen:
        needed = "; ".join(dict.fromkeys(_ADVICE[name] for name in FITTED if name in unseen))
        raise ConfigError(
            f"the measurements do not tell {', '.join(name for name in FITTED if name in unseen)} apart from the "
            f"others: they lack {needed}; several reports can be given together"
        )
