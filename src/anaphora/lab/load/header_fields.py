"""What is read of the tables in a load run's first line."""

from collections.abc import Mapping
from typing import Literal, NotRequired, TypedDict

from anaphora.traces.header_fields import Machine, ReadLate, SharedSettings, Stamps


class StoredSettings(SharedSettings):
    """What a person chose, as far as reports read it."""

    slo: Mapping[Literal["ttft_ms", "tpot_ms", "e2e_ms"], float]
    trace: str | None
    shrink: int
    num_prefixes: int
    prefix_tokens: int
    unique_tokens: int
    output_tokens: int


class _Calibrated(TypedDict):
    ttft_error_ms: Mapping[int, Stamps]
    streams_per_process: int
    event_error_ms: NotRequired[Mapping[int, ReadLate]]


class LoadEnvironment(Machine):
    """The client's machine, and how many streams it times truly."""

    client_error: _Calibrated | None
