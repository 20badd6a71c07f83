"""The client's error: its stamp of an event minus the server's clock just before that event was sent.

The client is the one that the experiments use, with its connections, framing and decoding, so what is measured is
what their numbers carry. The difference holds the kernel's way from socket to socket too: it is an upper bound.
"""

import asyncio
import json
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.calibration.server_process import timed_server
from anaphora.lab.calibration.timed_server import Timing
from anaphora.lab.calibration.timed_stream import TimedStream
from anaphora.lab.http import HttpClient
from anaphora.lab.lag import LoopLag

DEFAULT_CONCURRENCIES = (1, 64, 256)
DEFAULT_REPEATS = 3
LIMIT_MS = 3.0
"""Median error of a first token's stamp beyond which a process times no longer truly."""
TAIL_PERCENT = 1.0
"""A 99th percentile is one of events that were read in time only while fewer than this share were read late."""
_SPARE_FILES = 64


@dataclass(frozen=True, slots=True)
class Spread:
    """Milliseconds: the median, the 99th percentile, and of how many samples. ``read_late_percent``: the share of them
    that were read together with a later one, so that only the later one's arrival is known."""

    median: float
    p99: float
    num_samples: int
    read_late_percent: float

    @classmethod
    def of(cls, samples: Sequence[tuple[int, bool]]) -> "Spread":
        """Of errors in nanoseconds, each with whether it was read late."""
        errors_ns, late = np.array(samples, dtype=np.int64).T
        middle, high = np.percentile(errors_ns / 1e6, (50, 99))
        share = round(100 * float(late.mean()), 2)
        return cls(round(float(middle), 4), round(float(high), 4), len(samples), share)

    @property
    def tail_is_true(self) -> bool:
        """Whether the 99th percentile is one of events that were read in time."""
        return self.read_late_percent < TAIL_PERCENT


@dataclass(frozen=True, slots=True)
class ClientError:
    """What was found with so many streams at once. ``worst_loop_lag_ms``: the longest delay of the client's loop."""

    num_streams: int
    ttft_error_ms: Spread
    event_error_ms: Spread
    worst_loop_lag_ms: float


async def calibrate(
    concurrencies: Sequence[int] = DEFAULT_CONCURRENCIES,
    *,
    repeats: int = DEFAULT_REPEATS,
    timing: Timing | None = None,
) -> list[ClientError]:
    """Measure the client's error with each number of streams started together, ``repeats`` times each.

    A single stream is repeated twenty times as often, for a median and a percentile that mean something.

    Raises:
        ConfigError: a number is below 1, or more streams are asked for than files may be open.
        TargetError: the streams did not run at once as asked, so their errors would say nothing.
    """
    _check(concurrencies, repeats)
    found = []
    async with timed_server() as base:
        for num_streams in concurrencies:
            rounds = max(repeats, min(20 * repeats // num_streams, 20 * repeats))
            found.append(await _measure(base, num_streams, rounds, timing or _timing(num_streams)))
    return found


def as_json(found: Sequence[ClientError]) -> dict[str, Any]:
    """``ttft_error_ms`` and ``event_error_ms`` by number of streams, each with ``median``, ``p99`` and
    ``read_late_percent``."""
    return {
        "ttft_error_ms": {str(row.num_streams): asdict(row.ttft_error_ms) for row in found},
        "event_error_ms": {str(row.num_streams): asdict(row.event_error_ms) for row in found},
        "worst_loop_lag_ms": {str(row.num_streams): row.worst_loop_lag_ms for row in found},
    }


def _timing(num_streams: int) -> Timing:
    """40 events, 20 ms apart; the first one late enough for every stream to have begun before it."""
    return Timing(first_delay_ms=100.0 + num_streams)


def _check(concurrencies: Sequence[int], repeats: int) -> None:
    if repeats < 1 or not concurrencies or min(concurrencies) < 1:
        raise ConfigError("concurrency and repeats must be at least 1")
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and max(concurrencies) + _SPARE_FILES > limit:
        raise ConfigError(
            f"{max(concurrencies)} streams need as many open files, and {limit} are allowed: raise the limit "
            "(ulimit -n), or ask for fewer"
        )


async def _measure(base: BaseUrl, num_streams: int, rounds: int, timing: Timing) -> ClientError:
    first: list[tuple[int, bool]] = []
    every: list[tuple[int, bool]] = []
    clients = [HttpClient(base, clock=time.monotonic_ns) for _ in range(num_streams)]
    try:
        for client in clients:
            await client.open()
        async with LoopLag(time.monotonic_ns) as lag:
            for _ in range(rounds):
                for stream in await _together(clients, timing):
                    stamps = list(zip(stream.errors_ns, stream.shares_stamp, strict=True))
                    first.append(stamps[0])
                    every += stamps
    finally:
        for client in clients:
            await client.close()
    return ClientError(num_streams, Spread.of(first), Spread.of(every), round(lag.worst_ns / 1e6, 3))


async def _together(clients: Sequence[HttpClient], timing: Timing) -> list[TimedStream]:
    """One request a client, all sent together; refused unless all their answers ran at once, from end to end."""
    body = json.dumps({"timing": asdict(timing)}).encode()
    streams = [TimedStream() for _ in clients]
    limit_s = 30 + 4 * timing.duration_s
    try:
        await asyncio.gather(
            *(
                client.exchange("POST", "/v1/chat/completions", body=body, sink=stream, timeout_s=limit_s)
                for client, stream in zip(clients, streams, strict=True)
            )
        )
    except TargetError as error:
        raise TargetError(
            f"the built-in server with known timings did not answer as it should: {error}; this machine stood still "
            "or is too busy to be calibrated, try again when it rests"
        ) from error
    reached = max(stream.num_streams_at_once for stream in streams)
    if reached < len(clients):
        raise TargetError(
            f"{len(clients)} streams were asked for, but at most {reached} ran at once: this machine is too busy or "
            "too small for that many; ask for fewer"
        )
    if any(len(stream.errors_ns) != timing.num_events for stream in streams):
        raise TargetError("the server with known timings broke off a stream: try again")
    return streams
