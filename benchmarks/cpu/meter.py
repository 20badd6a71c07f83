"""Who uses the processors: between requests hopefully nobody, during one the server that was asked."""

import asyncio
import time
from collections.abc import Sequence

from benchmarks.cpu import procfs
from benchmarks.cpu.servers import Server

LOOK_S = 0.1
ASLEEP_S = 0.02
"""CPU seconds within ``LOOK_S``, of all servers together, that count as sleep: the clock ticks every hundredth."""


async def rest(servers: Sequence[Server], limit_s: float) -> None:
    """Wait until no server uses the processors, at most ``limit_s``.

    Servers poll for more work after each request (vLLM for about a second, on a whole core), which would be charged to
    whoever is measured next.
    """
    end_s = time.perf_counter() + limit_s
    used_s = sum(server.cpu_time_s() for server in servers)
    while time.perf_counter() < end_s:
        await asyncio.sleep(LOOK_S)
        before_s, used_s = used_s, sum(server.cpu_time_s() for server in servers)
        if used_s - before_s <= ASLEEP_S:
            return


class Meter:
    """Who used the processors during a request: the server, this client, or somebody else."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._before = self._now()

    def read(self) -> dict[str, float]:
        """Cores in use since the meter was made: the server's, and those of neither server nor client (noise)."""
        wall_s, busy_s, server_s, own_s = (now - then for now, then in zip(self._now(), self._before, strict=True))
        return {
            "server_cores": round(server_s / wall_s, 2),
            "foreign_cores": round(max(0.0, busy_s - server_s - own_s) / wall_s, 2),
        }

    def _now(self) -> tuple[float, float, float, float]:
        return time.perf_counter(), procfs.busy_time_s(), self._server.cpu_time_s(), time.process_time()
