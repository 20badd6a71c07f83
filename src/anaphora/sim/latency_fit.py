"""A latency model from measurements: least squares of relative errors, with coefficients that are not negative.

Relative, because a model that is 30 ms off at a hit of 60 ms is of no use, and at a prefill of 6 s nobody sees it.
A measurement counts by the root of how many requests it is the median of, and less the farther it is off: something
else may have held a server up, and what was measured once cannot show it (Huber, Annals of Mathematical Statistics 35,
1964).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls

from anaphora.errors import ConfigError
from anaphora.sim.latency import LatencyModel, StepWork

LINEAR = ("overhead_ms", "step_ms", "computed_ms_per_ktoken", "read_ms_per_ktoken", "attention_ms_per_mpair")
"""Coefficients of a sum. ``request_ms`` is not among them: where one request is measured after another, each step holds
one. Nor is ``free_tokens``: see :func:`fit_latency`."""
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

    A first token takes a request's way and a step of many tokens, a later one a step of one. If the first takes less
    than the sum of the model's terms says, then some of its tokens are free, and the way's overhead, which cannot be
    told from that, is taken to be 0: as few tokens are free as that takes.

    Raises:
        ConfigError: the observations leave a coefficient open; the message says what to measure.
    """
    if not observations:
        raise ConfigError("there is nothing to fit a latency model to: run `anaphora bench` (switch and costs)")
    measured = np.array([one.measured_ms for one in observations])
    rows = np.array([_row(one) for one in observations])
    weights = np.sqrt([one.num_requests for one in observations])
    _expect_determined(rows / measured[:, None])
    solution, loss = _robust(rows / measured[:, None], weights)
    model = LatencyModel(**dict(zip(LINEAR, map(float, solution), strict=True)))
    with_free = np.array([_row_with_free_tokens(one) for one in observations])
    other, other_loss = _robust(with_free / measured[:, None], weights)
    saved_ms, *others = map(float, other)
    if other_loss < loss and saved_ms > 0:
        model = LatencyModel(**dict(zip(LINEAR[1:], others, strict=True)))
        model = replace(model, free_tokens=1 + 1e3 * saved_ms / model.computed_ms_per_ktoken)
    residuals = (Residual(one.what, one.measured_ms, _said_by(model, one)) for one in observations)
    return LatencyFit(model, tuple(residuals))


def _said_by(model: LatencyModel, one: Observation) -> float:
    return model.overhead_ms * one.num_overheads + model.milliseconds(one.work)


def _robust(
    relative: npt.NDArray[np.float64], weights: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], float]:
    """Coefficients that make ``relative @ coefficients`` about 1, whatever a few rows say; and how far off they are."""
    trust = np.ones(len(relative))
    for _ in range(_ROUNDS):
        by = weights * trust
        solution, _ = nnls(relative * by[:, None], by)
        errors = np.abs(relative @ solution - 1) * weights
        usual = _USUAL_ERRORS * max(_LEAST_ERROR, _NORMAL * float(np.median(errors)))
        trust = np.sqrt(np.minimum(1, usual / np.maximum(errors, usual)))
    coefficients: npt.NDArray[np.float64] = solution
    return coefficients, float(np.sum(weights * np.abs(relative @ solution - 1)))


def _row(one: Observation) -> tuple[float, ...]:
    """Its factors of the coefficients, in the order of ``LINEAR``."""
    work = one.work
    return (
        one.num_overheads,
        work.num_steps,
        work.num_computed_tokens / 1e3,
        work.num_read_tokens / 1e3,
        work.num_attention_pairs / 1e6,
    )


def _row_with_free_tokens(one: Observation) -> tuple[float, ...]:
    """The same without an overhead, where at least one token of a step is free: a decode step has no other. The first
    factor is of the milliseconds that further ones save a step."""
    _, num_steps, num_ktokens, *others = _row(one)
    has_more = one.work.num_computed_tokens > num_steps
    return (-num_steps if has_more else 0.0, num_steps, num_ktokens - num_steps / 1e3, *others)


def _expect_determined(rows: npt.NDArray[np.float64]) -> None:
    """Refuse rows [observations, coefficients] of which some combination of coefficients leaves no trace."""
    lengths = np.linalg.norm(rows, axis=0)
    unseen = [name for name, length in zip(LINEAR, lengths, strict=True) if length == 0]
    if not unseen:
        _, sizes, combinations = np.linalg.svd(rows / lengths)
        sizes = np.pad(sizes, (0, len(LINEAR) - len(sizes)))
        for size, combination in zip(sizes, combinations, strict=True):
            if size < _SMALLEST_SINGULAR_VALUE:
                shares = zip(LINEAR, np.abs(combination), strict=True)
                unseen += [name for name, share in shares if share > _LEAST_SHARE and name not in unseen]
    if unseen:
        needed = "; ".join(dict.fromkeys(_ADVICE[name] for name in LINEAR if name in unseen))
        raise ConfigError(
            f"the measurements do not tell {', '.join(name for name in LINEAR if name in unseen)} apart from the "
            f"others: they lack {needed}; several reports can be given together"
        )
