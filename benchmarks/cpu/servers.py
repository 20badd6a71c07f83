"""Start a server by its command line, wait until it answers, stop it with everything that it started."""

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.cpu import procfs

from anaphora.lab.targets.managed import free_port

POLL_S = 0.02
READY_LIMIT_S = 600.0
STOP_LIMIT_S = 20.0


class Server:
    """One server process group. ``command`` may contain ``{port}``: it is replaced with a free port."""

    def __init__(self, name: str, command: str, log: Path) -> None:
        self.name = name
        self.command = command
        self._port = free_port()
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None
        self._members: list[int] = []

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._port

    def start(self) -> float:
        """Start it and return the seconds until ``/health`` said 200. Raises ``RuntimeError`` if it never does."""
        words = shlex.split(self.command.replace("{port}", str(self._port)))
        started_s = time.perf_counter()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        while not self._is_ready():
            if self._process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with code {self._process.returncode}; its log: {self._log}")
            if time.perf_counter() - started_s > READY_LIMIT_S:
                raise RuntimeError(f"{self.name} did not answer within {READY_LIMIT_S:.0f} s; its log: {self._log}")
            time.sleep(POLL_S)
        ready_s = time.perf_counter() - started_s
        self._members = procfs.group_members(self._process.pid)
        return ready_s

    def stop(self) -> None:
        """End the process group: first asked, then forced. Does nothing if it was never started."""
        if self._process is None:
            return
        self._signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_LIMIT_S)
        self._signal(signal.SIGKILL)  # the leader if it hangs, and children that outlived it
        self._process.wait()
        self._process = None

    @property
    def members(self) -> list[int]:
        """Ids of its processes, as they were when it was ready."""
        return list(self._members)

    def members_now(self) -> list[int]:
        """Ids of the processes that it has at this moment; none once it has ended."""
        return [] if self._process is None else procfs.group_members(self._process.pid)

    def pss_mib(self) -> float:
        """Memory of all its processes in MiB."""
        return procfs.pss_mib(self._members)

    def cpu_time_s(self) -> float:
        """CPU seconds that its processes have used so far."""
        return procfs.cpu_time_s(self._members)

    def model(self) -> str:
        """The name of the first model that it serves."""
        return str(self._get("/v1/models")["data"][0]["id"])

    def version(self) -> str:
        """What it says of itself at ``/version``, or ``unknown``."""
        try:
            return str(self._get("/version")["version"])
        except (OSError, KeyError, ValueError):
            return "unknown"

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.base_url}/health", timeout=5) as response:
                return int(response.status) == 200
        except OSError:
            return False

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(self.base_url + path, timeout=10) as response:
            return json.load(response)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def portable(command: str) -> str:
    """A command as it may be published: of absolute paths only the last part is kept."""
    return re.sub(r"(?<![\w/:.])(?:/[^\s/=:'\"]+)*/(?=[^\s/=:'\"])", "", command)
