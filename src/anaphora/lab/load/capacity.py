"""How many streams one process can time truly on this machine: found on the built-in server, not assumed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.calibration.calibrate import LIMIT_MS, ClientError, as_json, calibrate
from anaphora.lab.calibration.timed_server import Timing

MOST_STREAMS = 256
"""What one process is asked at most."""
_STEPS = (64, MOST_STREAMS)
_SINGLE = Timing(first_delay_ms=20.0, num_events=4, interval_ms=5.0)


@dataclass(frozen=True, slots=True)
class Capacity:
    """``per_process``: the most streams at once that were tried and timed truly; 0 if not even one was.
    ``in_time``: the most of which hardly an event was read late besides, so that 99th percentiles are true too; 0 if
    there is no such number, as on a busy machine."""

    per_process: int
    found: tuple[ClientError, ...]
    in_time: int = 0

    def as_stored(self) -> dict[str, Any]:
        """For the header of the records."""
        return {
            **as_json(self.found),
            "streams_per_process": self.per_process,
            "streams_per_process_in_time": self.in_time,
        }


async def measure_capacity(num_streams: int) -> Capacity:
    """Try up to ``num_streams`` at once, or what one process is asked at most; seconds."""
    wanted = min(num_streams, MOST_STREAMS)
    found: list[ClientError] = []
    for streams in sorted({1, *(step for step in _STEPS if step < wanted), wanted}):
        timing = _SINGLE if streams == 1 else Timing(first_delay_ms=100.0 + streams, num_events=10)
        try:
            found += await calibrate((streams,), repeats=1, timing=timing)
        except (TargetError, ConfigError, OSError):
            break  # not reached: more would not be either
    return _capacity(found)


def _capacity(found: Sequence[ClientError]) -> Capacity:
    true = [one for one in found if one.ttft_error_ms.median <= LIMIT_MS]
    in_time = [one.num_streams for one in true if one.event_error_ms.tail_is_true]
    return Capacity(max((one.num_streams for one in true), default=0), tuple(found), max(in_time, default=0))


def processes_for(num_streams: int, capacity: Capacity, most_processes: int) -> int:
    """How many processes carry so many streams; where there may be enough of them, so many that tails are true too.
    Raises :class:`ConfigError` with the reason if they cannot be carried."""
    if capacity.per_process == 0:
        raise ConfigError(
            "this machine cannot time a single stream truly now (its error on a server with known timings is above "
            f"{LIMIT_MS:g} ms): wait until it is less busy, see `anaphora calibrate`"
        )
    needed = -(-num_streams // capacity.per_process)
    if needed > most_processes:
        raise ConfigError(
            f"{num_streams} requests at once are more than this machine can time truly: {most_processes} "
            f"process{'es' if most_processes > 1 else ''} of {capacity.per_process} streams each; ask for a lower "
            "--concurrency, more --processes, or send from a larger machine"
        )
    spread = -(-num_streams // (capacity.in_time or capacity.per_process))
    return spread if spread <= most_processes else needed
