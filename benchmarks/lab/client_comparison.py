"""Which client's stamps are truer: ours or aiohttp's, on the built-in server whose every send is known.

    python -m benchmarks.lab.client_comparison --out benchmarks/results/lab/client

Both ask the same server process for the same streams, round by round in turn, on connections that stand. An error is
the client's stamp of an event minus the server's clock read immediately before the event was sent. Ours takes the
kernel's stamp of arrival where there is one; aiohttp's is read when its loop hands the bytes over, which is the
earliest that a program which uses it can do.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from anaphora.lab import environment
from anaphora.lab.address import BaseUrl
from anaphora.lab.calibration.server_process import timed_server
from anaphora.lab.calibration.timed_server import Timing
from anaphora.lab.calibration.timed_stream import TimedStream
from anaphora.lab.http import HttpClient

STREAMS = (1, 64, 256)
ROUNDS = {1: 20, 64: 4, 256: 4}
PATH = "/v1/chat/completions"
QUANTILES = {"median": 50, "p90": 90, "p99": 99}


Ask = Callable[[bytes, TimedStream], Awaitable[None]]


async def compare(base: BaseUrl, num_streams: int) -> list[dict[str, Any]]:
    """Rows of both clients with so many streams at once."""
    timing = Timing(first_delay_ms=100.0 + num_streams)
    body = json.dumps({"timing": asdict(timing)}).encode()
    ours = [HttpClient(base, clock=time.monotonic_ns) for _ in range(num_streams)]
    for client in ours:
        await client.open()
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(base_url=str(base), connector=connector) as session:
        clients: dict[str, list[Ask]] = {
            "ours": [_ours(client) for client in ours],
            "aiohttp": [_aiohttp(session)] * num_streams,
        }
        found: dict[str, list[TimedStream]] = {name: [] for name in clients}
        for asks in clients.values():  # warm both: connections stand, code is compiled
            await _together(asks, json.dumps({"timing": asdict(Timing(100.0 + num_streams, 2, 5.0))}).encode())
        for number in range(ROUNDS[num_streams]):
            for name in sorted(clients, reverse=number % 2 == 1):
                found[name] += await _together(clients[name], body)
    for client in ours:
        await client.close()
    return [_row(name, num_streams, streams) for name, streams in found.items()]


def _ours(client: HttpClient) -> Ask:
    async def ask(body: bytes, stream: TimedStream) -> None:
        await client.exchange("POST", PATH, body=body, sink=stream)

    return ask


def _aiohttp(session: aiohttp.ClientSession) -> Ask:
    async def ask(body: bytes, stream: TimedStream) -> None:
        async with session.post(PATH, data=body) as response:
            async for piece in response.content.iter_any():
                stream.feed(time.monotonic_ns(), piece)

    return ask


async def _together(asks: Sequence[Ask], body: bytes) -> list[TimedStream]:
    streams = [TimedStream() for _ in asks]
    await asyncio.gather(*(ask(body, stream) for ask, stream in zip(asks, streams, strict=True)))
    reached = max(stream.num_streams_at_once for stream in streams)
    if reached < len(asks):
        raise SystemExit(f"only {reached} of {len(asks)} streams ran at once: this machine is too busy")
    return streams


def _row(name: str, num_streams: int, streams: Sequence[TimedStream]) -> dict[str, Any]:
    first = np.array([stream.errors_ns[0] for stream in streams]) / 1e6
    every = np.array([error for stream in streams for error in stream.errors_ns]) / 1e6
    return {
        "client": name,
        "streams": num_streams,
        "ttft_error_ms": _spread(first),
        "event_error_ms": _spread(every),
    }


def _spread(errors: "np.typing.NDArray[np.float64]") -> dict[str, float]:
    median, p90, p99 = np.percentile(errors, (50, 90, 99))
    return {
        "median": round(float(median), 4),
        "p90": round(float(p90), 4),
        "p99": round(float(p99), 4),
        "num": len(errors),
    }


async def run() -> dict[str, Any]:
    """All rows, with the machine and the versions."""
    rows: list[dict[str, Any]] = []
    async with timed_server() as base:
        for num_streams in STREAMS:
            rows += await compare(base, num_streams)
    return {
        "command": "python -m benchmarks.lab.client_comparison",
        "environment": environment.describe(),
        "aiohttp": aiohttp.__version__,
        "rows": rows,
    }


def table(results: Mapping[str, Any]) -> str:
    """The rows for people."""
    machine = results["environment"]
    columns = [f"{what} {name}" for what in ("TTFT", "event") for name in QUANTILES]
    lines = [
        f"{machine['num_cpus']} × {machine['processor']}, Python {machine['python']}, aiohttp {results['aiohttp']}, "
        f"load average {machine['load_average'][0]:g} before; `{results['command']}`.",
        "Milliseconds by which a client's stamps are late.",
        "",
        f"| streams at once | client | {' | '.join(columns)} | events |",
        f"| {' | '.join(['---'] * (len(columns) + 3))} |",
    ]
    for row in results["rows"]:
        values = [row[name][part] for name in ("ttft_error_ms", "event_error_ms") for part in QUANTILES]
        cells = " | ".join(f"{value:.3f}" for value in values)
        lines.append(f"| {row['streams']} | {row['client']} | {cells} | {row['event_error_ms']['num']} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="stem of the JSON file and of the table")
    out: Path = parser.parse_args().out
    results = asyncio.run(run())
    out.parent.mkdir(parents=True, exist_ok=True)
    out.with_suffix(".json").write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    out.with_suffix(".md").write_text(table(results), "utf-8")
    print(table(results))


if __name__ == "__main__":
    main()
