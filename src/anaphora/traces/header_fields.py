"""What is read of a run line's three tables: whatever else stands in them is shown and not reckoned with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypedDict

from anaphora.traces.checked_fields import expect_entries

SWITCH = "switch"


class SharedSettings(TypedDict):
    """Of every run."""

    seed: int
    mechanism: Literal["flag", "restart", "salt", "nonce", "reset"]
    mechanism_proof: str
    exact_lengths: bool
    command: str
    lang: NotRequired[Literal["en", "zh"]]
    server_options: NotRequired[list[str]]


class Switch(TypedDict):
    """Of the experiment that switches the cache on and off."""

    prefix_tokens: int


class Experiments(TypedDict):
    """Settings by experiment."""

    switch: NotRequired[Switch]


class Settings(SharedSettings):
    """Of experiments. Older runs name them in a list, and have all settings side by side."""

    experiments: Experiments | list[str]


@dataclass(frozen=True, slots=True)
class StoredPrices:
    """What a million tokens cost; no other entry may be there."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        for name in ("input", "output", "cached", "written"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"{name} cannot be {value!r}")
        if not self.currency.strip():
            raise ValueError(f"currency cannot be {self.currency!r}")


class Target(TypedDict):
    """Who was measured."""

    kind: str
    model: str
    version: str | None
    cache_settings: Mapping[str, Any]
    base_url: NotRequired[str]
    takes_system: NotRequired[bool]
    prices: NotRequired[StoredPrices | None]


class Stamps(TypedDict):
    """How late stamps were, in milliseconds."""

    median: float
    p99: NotRequired[float]


class ReadLate(TypedDict):
    """How many events were read late."""

    read_late_percent: NotRequired[float]


class _Counted(TypedDict):
    median: float
    p99: float
    num_samples: int


_OneStream = TypedDict("_OneStream", {"1": _Counted})


class _ClientError(TypedDict):
    ttft_error_ms: _OneStream
    event_error_ms: NotRequired[Mapping[int, ReadLate]]


class Machine(TypedDict):
    """Where the client ran."""

    processor: str | None
    num_cpus: int
    load_average: tuple[float, float, float]


class Environment(Machine):
    """Of experiments, which time one stream at once."""

    client_error: NotRequired[_ClientError | None]


def expect_header(settings: Mapping[str, Any], target: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
    """Raises :class:`ValueError` with the path of what is missing, or is not of its type."""
    expect_entries(Settings, settings, "settings")
    if isinstance(settings["experiments"], list) and SWITCH in settings["experiments"]:
        expect_entries(Switch, settings, "settings")
    expect_entries(Target, target, "target")
    expect_entries(Environment, environment, "environment")
