"""A server as users start it: `anaphora serve` in a process of its own."""

import contextlib
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.patience import PATIENCE_S

READY = re.compile(r"Application startup complete: (http://\S+)")


class ServerUnderTest:
    """``url`` to reach it; ``log`` has what it has written to stderr so far."""

    def __init__(self, argv: list[str], environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "anaphora", "serve", *argv, "--port", "0", "--num-threads", "1"]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env={**os.environ, **environment}
        )
        self.url = ""
        self._lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @property
    def log(self) -> str:
        return "".join(self._lines)

    def wait_until_ready(self) -> None:
        assert self._ready.wait(PATIENCE_S), self.log
        assert self.url, self.log

    def wait_for_log(self, text: str) -> None:
        """Wait until ``text`` was written."""
        deadline = time.monotonic() + PATIENCE_S
        while text not in self.log:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    def wait(self) -> int:
        """Its exit code; afterwards ``log`` is whole."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as stderr:
            for line in stderr:
                self._lines.append(line)
                found = READY.search(line)
                if found:
                    self.url = found[1]
                    self._ready.set()
        self._ready.set()


@contextlib.contextmanager
def server_process(model: Path, *argv: str, environment: Mapping[str, str] | None = None) -> Iterator[ServerUnderTest]:
    """A ready server for the model folder; killed at the end if it has not ended by itself."""
    server = ServerUnderTest([str(model), *argv], environment or {})
    try:
        server.wait_until_ready()
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.wait()
