"""Records of runs whose truth is known: TTFT = fixed + a · computed + b · cached + c · computed², and seeded noise.

The cache is one of whole blocks; times are written into records as the client would stamp them, without a server.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.traces.records import Arm, RequestRecord, Run, RunHeader

BLOCK_SIZE = 16
LENGTHS = (280, 536, 1048, 2072, 3096)
PREFIXES, ENDINGS = (0, 512, 1024, 2048), (32, 256, 1024)
STEPS, STEP_TOKENS, ENDING_OF_STAIRS = 12, 4, 40

Noise = Callable[[np.random.Generator, float], float]
"""A time as it is measured, from the true one in milliseconds."""


@dataclass(frozen=True, slots=True)
class Planted:
    """Milliseconds; per thousand tokens, and per thousand squared."""

    fixed_ms: float = 25.0
    computed_ms: float = 200.0
    cached_ms: float = 6.0
    squared_ms: float = 4.0

    def ttft_ms(self, computed: float, cached: float) -> float:
        """What a request truly takes."""
        thousands = computed / 1000
        return (
            self.fixed_ms
            + self.computed_ms * thousands
            + self.cached_ms * cached / 1000
            + self.squared_ms * thousands**2
        )

    @property
    def step_ms(self) -> float:
        """What one block more in the cache takes off, but for the quadratic part."""
        return (self.computed_ms - self.cached_ms) * BLOCK_SIZE / 1000


def constant(sigma_ms: float) -> Noise:
    """The same noise whatever the time."""
    return lambda rng, time: float(rng.normal(time, sigma_ms))


def proportional(sigma: float) -> Noise:
    """Noise that grows with the time."""
    return lambda rng, time: time * float(rng.normal(1, sigma))


def cached_of(length: int) -> int:
    """Whole blocks of a prompt that was seen before; its last token is computed."""
    return (length - 1) // BLOCK_SIZE * BLOCK_SIZE


def gradient(planted: Planted, noise: Noise, rng: np.random.Generator, *, repeats: int = 5) -> list[RequestRecord]:
    """Each length in both arms."""
    records = []
    for length in LENGTHS:
        for index in range(1, repeats + 1):
            for arm, cached in _arms(length):
                time = noise(rng, planted.ttft_ms(length - cached, cached))
                records.append(_record("gradient", arm, length, index, f"{length}-token prefix", length, cached, time))
    return records


def costs(planted: Planted, noise: Noise, rng: np.random.Generator, *, repeats: int = 5) -> list[RequestRecord]:
    """Cached prefixes times new endings, and the staircase."""
    grid = [(f"{prefix} + {ending}", prefix, ending) for prefix in PREFIXES for ending in ENDINGS]
    lengths = [512 + STEP_TOKENS * step for step in range(STEPS)]
    stairs = [(STAIRCASE, n // BLOCK_SIZE * BLOCK_SIZE, ENDING_OF_STAIRS + n % BLOCK_SIZE) for n in lengths]
    records = []
    for index in range(1, repeats + 1):
        for label, cached, computed in (*grid, *stairs):
            time = noise(rng, planted.ttft_ms(computed, cached))
            records.append(_record("costs", "on", cached, index, label, cached + computed, cached, time))
    return records


def switch(
    off_ms: float, on_ms: float, noise: Noise, rng: np.random.Generator, *, questions: int = 8
) -> list[RequestRecord]:
    """Short questions behind one prompt; the first of each arm fills the cache and is in no statistic."""
    arms: tuple[tuple[Arm, float, int], ...] = (("off", off_ms, 0), ("on", on_ms, 1520))
    return [
        _record("switch", arm, 1500, index, f"question {index}", 1530, cached, noise(rng, time), first=index == 1)
        for index in range(1, questions + 1)
        for arm, time, cached in arms
    ]


def as_run(records: Sequence[RequestRecord], run_id: str) -> Run:
    """What `anaphora bench` would have saved."""
    header = RunHeader(
        run_id=run_id,
        started_at="2026-01-01T00:00:00+00:00",
        num_planned_requests=len(records),
        settings={"seed": 0, "mechanism": "salt"},
        target={"kind": "planted", "model": "planted", "version": None},
        environment={"num_cpus": 2, "load_average": [0.0, 0.0, 0.0]},
    )
    return Run(header, tuple(records))


def _arms(length: int) -> tuple[tuple[Arm, int], ...]:
    return ("off", 0), ("on", cached_of(length))


def _record(
    experiment: str,
    arm: Arm,
    group: int,
    index: int,
    label: str,
    length: int,
    cached: int,
    ttft_ms: float,
    *,
    first: bool = False,
) -> RequestRecord:
    sent = 1_000_000_000
    token = sent + round(ttft_ms * 1e6)
    return RequestRecord(
        experiment=experiment,
        arm=arm,
        phase="first" if first else "measured",
        group=group,
        index=index,
        label=label,
        server="main",
        sent_ns=sent,
        first_byte_ns=token,
        first_token_ns=token,
        first_answer_ns=token,
        last_token_ns=token,
        end_ns=token,
        streamed=True,
        connection_reused=True,
        max_tokens=1,
        num_prompt_tokens=length,
        predicted_cached_tokens=cached,
        num_token_events=1,
        finish_reason="length",
        usage={"prompt_tokens": length, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": cached}},
        worst_loop_lag_ns=0,
        counters_before=None,
        counters_after=None,
        answer="",
        error=None,
    )
