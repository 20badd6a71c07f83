"""What is planted: TTFT = fixed + a · computed + b · cached + c · computed² + d · computed · cached, noise around it,
and records of such runs.

The cache is one of whole blocks; times are written into records as the client would stamp them, without a server.
"""

from collections.abc import Sequence
from dataclasses import astuple, dataclass, replace

import numpy as np

from anaphora.lab.experiments.costs import STAIRCASE
from anaphora.traces.records import Arm, RequestRecord, Run, RunHeader

BLOCK_SIZE = 16
LENGTHS = (280, 536, 1048, 2072, 3096)
PREFIXES, ENDINGS = (0, 512, 1024, 2048), (32, 256, 1024)
STEPS, STEP_TOKENS, ENDING_OF_STAIRS = 12, 4, 40
REPEATS, QUESTIONS = 6, 8
SWITCH_TOKENS = 1530


@dataclass(frozen=True, slots=True)
class Planted:
    """Milliseconds; per thousand tokens, and per thousand squared. As in attention, the product is twice the square."""

    fixed_ms: float = 25.0
    computed_ms: float = 200.0
    cached_ms: float = 6.0
    squared_ms: float = 4.0
    product_ms: float = 8.0

    def ttft_ms(self, computed: float, cached: float) -> float:
        """What a request truly takes."""
        thousands = computed / 1000
        return (
            self.fixed_ms
            + self.computed_ms * thousands
            + self.cached_ms * cached / 1000
            + self.squared_ms * thousands**2
            + self.product_ms * thousands * cached / 1000
        )

    def slower(self, share: float) -> "Planted":
        """Everything takes so much longer."""
        return Planted(*((1 + share) * value for value in astuple(self)))

    def gaining(self, share: float) -> "Planted":
        """Linear, and cached tokens so cheap that the switch's prompt takes ``share`` less with caching on."""
        cached = cached_of(SWITCH_TOKENS)
        plain = replace(self, squared_ms=0.0, product_ms=0.0)
        return replace(plain, cached_ms=plain.computed_ms - share * plain.ttft_ms(SWITCH_TOKENS, 0) / cached * 1000)


@dataclass(frozen=True, slots=True)
class Noise:
    """Normal; its standard deviation is ``constant_ms`` plus a ``share`` of the time."""

    constant_ms: float = 0.0
    share: float = 0.0

    @property
    def name(self) -> str:
        """For people."""
        return f"in proportion, {self.share:.0%}" if self.share else f"constant, {self.constant_ms:g} ms"

    def sigma_ms(self, time_ms: float) -> float:
        """The standard deviation at a time."""
        return self.constant_ms + self.share * time_ms

    def around(self, time_ms: float, rng: np.random.Generator) -> float:
        """The time as it comes out once."""
        return float(rng.normal(time_ms, self.sigma_ms(time_ms)))


def cached_of(length: int) -> int:
    """Whole blocks of a prompt that was seen before; its last token is computed."""
    return (length - 1) // BLOCK_SIZE * BLOCK_SIZE


def gradient(planted: Planted, noise: Noise, rng: np.random.Generator) -> list[RequestRecord]:
    """Each length in both arms."""
    return [
        _record("gradient", arm, length, index, f"{length}-token prefix", length, cached, planted, noise, rng)
        for length in LENGTHS
        for index in range(1, REPEATS + 1)
        for arm, cached in _arms(length)
    ]


def costs(planted: Planted, noise: Noise, rng: np.random.Generator) -> list[RequestRecord]:
    """Cached prefixes times new endings, and the staircase."""
    grid = [(f"{prefix} + {ending}", prefix, ending) for prefix in PREFIXES for ending in ENDINGS]
    lengths = [512 + STEP_TOKENS * step for step in range(STEPS)]
    stairs = [(STAIRCASE, n // BLOCK_SIZE * BLOCK_SIZE, ENDING_OF_STAIRS + n % BLOCK_SIZE) for n in lengths]
    return [
        _record("costs", "on", cached, index, label, cached + computed, cached, planted, noise, rng)
        for index in range(1, REPEATS + 1)
        for label, cached, computed in (*grid, *stairs)
    ]


def switch(planted: Planted, noise: Noise, rng: np.random.Generator) -> list[RequestRecord]:
    """Short questions behind one prompt; the first of each arm fills the cache and is in no statistic."""
    return [
        _record("switch", arm, 1500, index, f"question {index}", SWITCH_TOKENS, cached, planted, noise, rng)
        for index in range(1, QUESTIONS + 1)
        for arm, cached in _arms(SWITCH_TOKENS)
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
    planted: Planted,
    noise: Noise,
    rng: np.random.Generator,
) -> RequestRecord:
    sent = 1_000_000_000
    token = sent + round(noise.around(planted.ttft_ms(length - cached, cached), rng) * 1e6)
    return RequestRecord(
        experiment=experiment,
        arm=arm,
        phase="first" if experiment == "switch" and index == 1 else "measured",
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
