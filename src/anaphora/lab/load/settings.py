"""What a person asks of `anaphora bench load`, as one frozen value that refuses what cannot be."""

from dataclasses import dataclass, field
from typing import ClassVar

from anaphora.cores import num_usable_cores
from anaphora.errors import ConfigError
from anaphora.lab.command_line import at_least, named
from anaphora.lab.load.records import Loop
from anaphora.lab.load.slo import parse_limits

_MOST_PROCESSES = 8
_HIGHEST_RATE = 100_000
"""Per second: more than any client here can send; the times of a stage are all made before it begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSettings:
    """The defaults are the levels of the seed documents' closing table, and finish in minutes."""

    name: ClassVar[str] = "load"

    concurrency: tuple[int, ...] = ()
    """Clients of each stage of a closed loop; without any loop, those of :attr:`levels`."""
    rate: tuple[float, ...] = ()
    """Requests per second of each stage of an open loop."""
    trace: str | None = None
    trace_format: str | None = None
    trace_block_size: int | None = None
    speed: tuple[float, ...] = (1.0,)
    jitter_s: float = field(default=0.0, metadata=named("jitter"))
    shrink: int = 1
    duration_s: float = 30.0
    warmup_s: float = 5.0
    num_requests: int | None = field(default=None, metadata=named("requests"))
    rounds: int = 1
    prefix_tokens: int = 1024
    num_prefixes: int = field(default=1, metadata=named("prefixes"))
    unique_tokens: int = 64
    output_tokens: int = 64
    slo: str | None = None
    processes: int | None = None
    timeout_s: float = field(default=300.0, metadata=named("request-timeout"))

    def __post_init__(self) -> None:
        at_least(self, shrink=1, rounds=1, num_prefixes=1, unique_tokens=1, output_tokens=1, prefix_tokens=0)
        self._check_loops()
        self._check_times()
        if self.num_requests is not None and self.num_requests < 1:
            raise ConfigError("--requests must be at least 1")
        if self.processes is not None and self.processes < 1:
            raise ConfigError("--processes must be at least 1")
        if self.slo is not None:
            parse_limits(self.slo)

    def _check_loops(self) -> None:
        asked = [name for name in ("concurrency", "rate", "trace") if getattr(self, name)]
        if len(asked) > 1:
            raise ConfigError(f"--{asked[0]} and --{asked[1]} are two sorts of load: ask for one at a time")
        for name, least in (("concurrency", 1), ("rate", 0.001), ("speed", 0.001)):
            levels = getattr(self, name)
            if levels and (min(levels) < least or len(set(levels)) < len(levels)):
                raise ConfigError(f"--{name} takes different numbers of at least {least:g}, like 1,4,16")
        if self.rate and max(self.rate) > _HIGHEST_RATE:
            raise ConfigError(f"--rate must be at most {_HIGHEST_RATE:,} requests a second")
        if not self.speed:
            raise ConfigError("--speed takes at least one number, like 1")
        if self.num_requests is not None and self.loop != "closed":
            raise ConfigError("--requests ends a closed loop's stage: an open loop and a replay end by --duration")
        if self.trace is None and (self.speed != (1.0,) or self.jitter_s or self.shrink != 1 or self.trace_format):
            raise ConfigError("--speed, --jitter, --shrink and --trace-format are for a replay: give the --trace")

    def _check_times(self) -> None:
        if not 0.5 <= self.duration_s <= 86_400:
            raise ConfigError("--duration must be between 0.5 seconds and a day")
        if not 0 <= self.warmup_s <= 3600:
            raise ConfigError("--warmup must be between 0 and 3600 seconds")
        if not 0 <= self.jitter_s <= 3600:
            raise ConfigError("--jitter must be between 0 and 3600 seconds")
        if not 0 < self.timeout_s <= 86_400:
            raise ConfigError("--request-timeout must be more than 0 seconds and at most a day")

    @property
    def loop(self) -> Loop:
        """The sort of load."""
        return "replay" if self.trace else "open" if self.rate else "closed"

    @property
    def levels(self) -> tuple[float, ...]:
        """The levels of the sweep, ascending."""
        chosen = {"replay": self.speed, "open": self.rate, "closed": self.concurrency or (1, 4, 16, 32)}[self.loop]
        return tuple(sorted(float(level) for level in chosen))

    @property
    def limits(self) -> dict[str, float]:
        """The limits of ``slo`` by name; none if it was not given."""
        return {} if self.slo is None else parse_limits(self.slo)

    @property
    def most_processes(self) -> int:
        """How many sending processes there may be."""
        return self.processes or min(_MOST_PROCESSES, num_usable_cores())
