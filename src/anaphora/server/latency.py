"""Latency histograms, observed as outputs pass by. Prometheus' text form is made of them in ``metrics``."""

import time
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import aclosing

from pydantic_core import from_json, to_json

from anaphora.engine import RequestOutput, RequestTimes

TTFT_BOUNDS_S = (
    0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.125, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5,
    0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 40.0, 80.0, 160.0,
)  # fmt: skip
"""Fine below 100 ms: that is where hits are."""
ITL_BOUNDS_S = (
    0.001,
    0.0025,
    0.005,
    0.0075,
    0.01,
    0.015,
    0.02,
    0.025,
    0.03,
    0.04,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.5,
    1.0,
    2.0,
    5.0,
)
REQUEST_BOUNDS_S = (
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.2,
    0.3,
    0.5,
    0.8,
    1.0,
    1.5,
    2.0,
    2.5,
    5.0,
    10.0,
    15.0,
    20.0,
    30.0,
    60.0,
    120.0,
    240.0,
    480.0,
    960.0,
)


class Histogram:
    """Counts of observations up to each bound (seconds), and their sum."""

    def __init__(self, bounds_s: Sequence[float]) -> None:
        self.bounds_s = tuple(bounds_s)
        self.sum_s = 0.0
        self._counts = [0] * (len(bounds_s) + 1)

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self._counts[bisect_left(self.bounds_s, seconds)] += 1
        self.sum_s += seconds

    def numbers(self) -> list[float]:
        """The sum, then the counts of each interval between bounds."""
        return [self.sum_s, *self._counts]

    def add(self, numbers: Sequence[float]) -> None:
        """Count what another histogram of the same bounds has counted; ``numbers`` are its :meth:`numbers`."""
        sum_s, *counts = numbers
        self.sum_s += sum_s
        self._counts = [own + int(more) for own, more in zip(self._counts, counts, strict=True)]

    def cumulative(self) -> list[tuple[str, float]]:
        """(upper bound, number of observations at most that), the last for ``+Inf``: Prometheus' buckets."""
        buckets, total = [], 0
        for bound, count in zip((*map(str, self.bounds_s), "+Inf"), self._counts, strict=True):
            total += count
            buckets.append((bound, float(total)))
        return buckets


class LatencyHistograms:
    """Times of all requests. They are the engine's own stamps, but for the gaps between tokens, measured here."""

    def __init__(self) -> None:
        self.time_to_first_token = Histogram(TTFT_BOUNDS_S)
        self.inter_token_latency = Histogram(ITL_BOUNDS_S)
        self.e2e_request_latency = Histogram(REQUEST_BOUNDS_S)
        self.request_queue_time = Histogram(REQUEST_BOUNDS_S)
        self.request_prefill_time = Histogram(REQUEST_BOUNDS_S)

    @property
    def _all(self) -> tuple[Histogram, ...]:
        return (
            self.time_to_first_token,
            self.inter_token_latency,
            self.e2e_request_latency,
            self.request_queue_time,
            self.request_prefill_time,
        )

    def packed(self) -> bytes:
        """All counts, for :meth:`total` in another process."""
        return to_json([histogram.numbers() for histogram in self._all])

    @classmethod
    def total(cls, parts: Iterable[bytes]) -> "LatencyHistograms":
        """The sum of what several processes have counted; each part is a :meth:`packed`."""
        total = cls()
        for part in parts:
            for histogram, numbers in zip(total._all, from_json(part), strict=True):
                histogram.add(numbers)
        return total

    async def observe(self, outputs: AsyncGenerator[RequestOutput, None]) -> AsyncGenerator[RequestOutput, None]:
        """The same outputs; their times are counted as they pass."""
        last_token_s: float | None = None
        async with aclosing(outputs):
            async for output in outputs:
                if output.token_ids:
                    now = time.monotonic()
                    self._observe_tokens(output, None if last_token_s is None else now - last_token_s)
                    last_token_s = now
                if output.times.finished_s is not None:
                    self.e2e_request_latency.observe(output.times.finished_s - output.times.arrived_s)
                yield output

    def _observe_tokens(self, output: RequestOutput, gap_s: float | None) -> None:
        """Tokens that came ``gap_s`` after those before; with ``None`` they are the first ones."""
        if gap_s is None:
            self._observe_start(output.times)
            return
        for _ in output.token_ids:  # several at once were waiting for a slow reader
            self.inter_token_latency.observe(gap_s / len(output.token_ids))

    def _observe_start(self, times: RequestTimes) -> None:
        assert times.scheduled_s is not None
        assert times.first_token_s is not None
        self.time_to_first_token.observe(times.first_token_s - times.arrived_s)
        self.request_queue_time.observe(times.scheduled_s - times.arrived_s)
        self.request_prefill_time.observe(times.first_token_s - times.scheduled_s)
