"""Who uses the processors while a request runs."""

import time

from benchmarks.cpu import procfs
from benchmarks.cpu.servers import Server


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
