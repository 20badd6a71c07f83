"""Did the server grow slower or faster while it was measured?"""

import math
from collections.abc import Hashable, Sequence

from anaphora.lab.check import Check
from anaphora.lab.experiments.two_variable import known_cached_tokens
from anaphora.lab.statistics import fit_line, median
from anaphora.lab.timings import ttft_ms
from anaphora.lab.witnesses import prompt_tokens
from anaphora.traces.records import RequestRecord

_LEAST_REQUESTS = 10
_ALIKE_TOKENS = 64
_TOLERATED_PERCENT = 5.0
_MOST = 20.0
"""A logarithm beyond which nothing is told any more; the exponential must not overflow."""


def check_drift(records: Sequence[RequestRecord]) -> Check:
    """A line through how far each first token's time lies from the median of its like, over the run's length."""
    points = _deviations(records)
    line = fit_line([at * 1000 for at, _ in points], [ratio for _, ratio in points])  # per unit of the run
    if len(points) < _LEAST_REQUESTS or line is None or line.slope_interval is None:
        return Check("no drift", "unknown", "too few repeated requests to tell whether times drifted")
    bounds = line.slope_ms_per_ktoken, line.slope_interval.low, line.slope_interval.high
    drift, low, high = (math.expm1(min(ratio, _MOST)) * 100 for ratio in bounds)
    seen = (
        f"from the first to the last request, times to first token changed by {drift:+.1f}% "
        f"({low:+.1f} to {high:+.1f}% at 95%)"
    ).replace("-", "−")
    drifted = abs(drift) > _TOLERATED_PERCENT and (low > 0 or high < 0)
    return Check("no drift", "warning" if drifted else "ok", seen)


def _deviations(records: Sequence[RequestRecord]) -> list[tuple[float, float]]:
    """When, as a share of the run, and the logarithm of how many times as long as its like: a line through percentages
    could fall below −100."""
    alike: dict[Hashable, list[tuple[int, float]]] = {}
    for record in records:
        time = ttft_ms(record)
        if record.phase == "measured" and time is not None:
            alike.setdefault(kind_of(record), []).append((record.sent_ns, time))
    repeated = [cell for cell in alike.values() if len(cell) > 1]
    starts = [sent for cell in repeated for sent, _ in cell]
    first, length = min(starts, default=0), max(starts, default=0) - min(starts, default=0)
    return [
        ((sent - first) / length, math.log(time / middle))
        for cell in repeated
        if (middle := median([time for _, time in cell])) and length
        for sent, time in cell
        if time > 0
    ]


def kind_of(record: RequestRecord) -> Hashable:
    """Requests of one kind compute nearly as many tokens after equally long prefixes."""
    prompt, cached = prompt_tokens(record), known_cached_tokens(record)
    computed = None if prompt is None or cached is None else (prompt - cached) // _ALIKE_TOKENS
    return (record.experiment, record.arm, record.group, computed)
