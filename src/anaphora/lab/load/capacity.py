"""How many streams one process can time truly on this machine: found on the built-in server, not assumed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.calibration.calibrate import ClientError, as_json, calibrate
from anaphora.lab.calibration.timed_server import Timing

MOST_STREAMS = 256
"""What one process is asked at most."""
LIMIT_MS = 3.0
"""Median error of a first token's stamp beyond which a process times no longer truly."""
_STEPS = (64, MOST_STREAMS)
_SINGLE = Timing(first_delay_ms=20.0, num_events=4, interval_ms=5.0)


@dataclass(frozen=True, slots=True)
class Capacity:
    """``per_process``: the most streams at once that were tried and timed truly; 0 if not even one was."""

    per_process: int
    found: tuple[ClientError, ...]

    def as_stored(self) -> dict[str, Any]:
        """For the header of the records."""
        return {**as_json(self.found), "streams_per_process": self.per_process}


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
    return Capacity(_most_true(found), tuple(found))


def _most_true(found: Sequence[ClientError]) -> int:
    true = [one.num_streams for one in found if one.ttft_error_ms.median <= LIMIT_MS]
    return max(true, default=0)


def processes_for(num_streams: int, capacity: Capacity, most_processes: int) -> int:
    """How many processes carry so many streams. Raises :class:`ConfigError` with the reason if they cannot."""
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
    return needed
