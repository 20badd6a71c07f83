"""Raw records of a load run: what was asked, then every request, window and beat as they come.

Times are readings of the machine's monotonic clock in nanoseconds, which all its processes share; unknown is ``None``.
How they are kept: :mod:`anaphora.lab.load.record_file`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from anaphora.traces.records import Arm, CounterReading

FORMAT_VERSION = 1

INTERRUPTED = "the run was stopped"
"""Why a stage ended before its time when the run did."""

Loop = Literal["closed", "open", "replay"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One level of load on one arm. ``level``: clients of a closed loop, requests per second of an open one, speed of
    a replay. ``round``: which repetition of the sweep."""

    number: int
    loop: Loop
    level: float
    arm: Arm
    round: int
    num_processes: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadRecord:
    """One request. ``token_offsets_ns``: arrival of each event with generated tokens, counted from ``sent_ns``."""

    stage: int
    process: int
    client: int
    """Closed loop: which client asked. Otherwise 0."""
    number: int
    """Which request of the workload it was: equal numbers of two arms ask the same."""
    intended_ns: int
    """When it was due: by the schedule or, in a closed loop, when its client's answer before was over."""
    sent_ns: int
    first_byte_ns: int | None
    end_ns: int
    token_offsets_ns: tuple[int, ...]
    streamed: bool
    connection_reused: bool
    max_tokens: int
    usage: Mapping[str, Any] | None
    finish_reason: str | None
    error: str | None
    abandoned: bool = False
    """The run was stopped while this request was under way: it says nothing of the server."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The end of a stage: requests due within [``begin_ns``, ``end_ns``) are measured, those before are warm-up and
    those after keep the load up until the measured ones are answered. ``None``: it never came so far.

    ``stopped``: why the stage ended before its time.
    """

    stage: int
    begin_ns: int | None
    end_ns: int | None
    num_due: int | None
    """Requests that the schedule has within the window; ``None`` in a closed loop."""
    load_until_ns: int | None
    """When the load ended: later than the last measured answer, if all went well."""
    counters_before: CounterReading | None
    counters_after: CounterReading | None
    stopped: str | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """A second of a sending process: its loop's longest delay, its share of a processor, and its open requests."""

    stage: int
    process: int
    at_ns: int
    worst_lag_ns: int
    cpu_share: float
    num_open: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StagePrediction:
    """What the cache core itself would have served of a stage's requests, in the order in which they were sent.

    ``numbers``, ``prompt_tokens`` and ``cached_tokens`` run side by side, one entry a request. ``reason``: why nothing
    was predicted; they are empty then. ``prompt_tokens`` alone are empty where a server without a cache makes the
    answer 0 whatever is asked.
    """

    stage: int
    reason: str | None
    block_size: int
    numbers: tuple[int, ...] = ()
    prompt_tokens: tuple[int, ...] = ()
    cached_tokens: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadResumption:
    """Here a run that was cut short went on, with these stages: what was recorded of them before counts no more."""

    started_at: str
    stages: tuple[Stage, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LoadHeader:
    """What was asked, of whom, and on which machine. ``stages`` in the order of running."""

    run_id: str
    started_at: str
    settings: Mapping[str, Any]
    stages: tuple[Stage, ...]
    target: Mapping[str, Any]
    environment: Mapping[str, Any]
    format_version: int = FORMAT_VERSION


@dataclasses.dataclass(frozen=True, slots=True)
class LoadRun:
    """A records file as read back: of every stage, its last try. The header's stages are those that were run."""

    header: LoadHeader
    requests: tuple[LoadRecord, ...]
    windows: tuple[Window, ...]
    beats: tuple[Beat, ...]
    predictions: tuple[StagePrediction, ...] = ()
    resumptions: tuple[LoadResumption, ...] = ()
