"""Where the cached count jumps by a block, the time to first token steps down: how wide and how high is the step?"""

from collections.abc import Sequence
from itertools import pairwise
from math import gcd
from typing import Any

import numpy as np
from scipy import special

from anaphora.lab.experiments.summary import interval, median_of, ms
from anaphora.lab.experiments.two_variable import known_cached_tokens, without_strays
from anaphora.lab.statistics import LEVEL, Interval
from anaphora.lab.timings import ttft_ms
from anaphora.lab.token_costs import Point
from anaphora.lab.witnesses import prompt_tokens
from anaphora.traces.records import RequestRecord

_LEAST_POINTS = 6


def staircase(records: Sequence[RequestRecord]) -> dict[str, Any]:
    """Rows by prompt length, the width of a step in tokens, and its height in milliseconds.

    ``step_tokens``: the greatest number that divides all differences of cached counts; ``None`` if they never differ.
    ``step_ms``: how much less a prompt of the same length takes with one step more of it cached.
    """
    measured = [record for record in records if record.phase == "measured"]
    rows = _rows(measured)
    counts = sorted({row["cached_tokens"] for row in rows if row["cached_tokens"] is not None})
    width = gcd(*(b - a for a, b in pairwise(counts))) or None
    return {"rows": rows, "step_tokens": width, **_height(measured, width)}


def _rows(records: Sequence[RequestRecord]) -> list[dict[str, Any]]:
    by_length: dict[tuple[int, int | None], list[RequestRecord]] = {}
    for record in records:
        length = prompt_tokens(record)
        if length is not None:
            by_length.setdefault((length, known_cached_tokens(record)), []).append(record)
    return [
        {
            "prompt_tokens": length,
            "cached_tokens": cached,
            "ttft_ms": median_of(members, ttft_ms),
            "num_requests": len(members),
            "num_failed": sum(record.error is not None for record in members),
        }
        for (length, cached), members in sorted(by_length.items(), key=lambda item: (item[0][0], item[0][1] or 0))
    ]


def _height(records: Sequence[RequestRecord], width: int | None) -> dict[str, Any]:
    """By least squares of TTFT on prompt length and steps cached, which vary apart along a staircase."""
    known = [
        Point("staircase", length - cached, cached, time)
        for record in records
        if (length := prompt_tokens(record)) is not None
        and (cached := known_cached_tokens(record)) is not None
        and (time := ttft_ms(record)) is not None
    ]
    points = without_strays(known) if width else []
    design = np.array(
        [(1.0, point.computed_tokens + point.cached_tokens, point.cached_tokens / (width or 1)) for point in points]
    ).reshape(-1, 3)
    design = design - np.array([0.0, *(design[:, 1:].mean(axis=0) if points else (0.0, 0.0))])
    if len(points) < _LEAST_POINTS or np.linalg.matrix_rank(design) < 3:
        return {"step_ms": None, "step_ms_interval": None, "num_points": len(points)}
    times = np.array([point.ttft_ms for point in points])
    values = np.linalg.lstsq(design, times, rcond=None)[0]
    freedom = len(points) - 3
    variance = float(np.sum((times - design @ values) ** 2)) / freedom
    error = float(np.sqrt(variance * np.linalg.inv(design.T @ design)[2, 2]))
    half = float(special.stdtrit(freedom, (1 + LEVEL) / 2)) * error
    saved = -float(values[2])
    return {
        "step_ms": ms(saved),
        "step_ms_interval": interval(Interval(saved - half, saved + half, LEVEL), ms),
        "num_points": len(points),
    }
