"""The request log on disk (`--request-log`): rows are made and written by a thread, and the server never waits for it.

What comes faster than it can be written is left out and counted in the log; after a failed write nothing more is
logged, and that is said once.
"""

import io
import json
import logging
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from anaphora.errors import ConfigError
from anaphora.server.traffic_rows import DescribedEngine, RowMaker, Served

MAX_UNWRITTEN = 1024
"""Rows that may wait for the disk."""
CLOSE_LIMIT_S = 10.0
_HEAD = b'{"kind": "server"'
_log = logging.getLogger(__name__)

Row = Callable[[], dict[str, Any]]


def open_log_file(path: Path) -> IO[str]:
    """A file to append to, readable by its owner only if it is new.

    Raises:
        ConfigError: it cannot be opened, or holds something else.
    """
    try:
        with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "rb") as file:  # noqa: PTH123 (a mode is needed)
            head = file.read(len(_HEAD))
        if head and head != _HEAD:
            raise ConfigError(f"request log {path} holds something else: name another file")
        # unbuffered: each row is one write, so that several front ends can append to one file
        return io.TextIOWrapper(path.open("ab", buffering=0), encoding="utf-8", write_through=True)
    except OSError as error:
        raise ConfigError(f"cannot write the request log {path}: {error.strerror or error}") from error


class TrafficLog:
    """One start of the server in a request log. Its methods may be called from the event loop: they return at once."""

    def __init__(self, file: IO[str], rows: RowMaker, *, max_unwritten: int = MAX_UNWRITTEN) -> None:
        """``file`` is closed by :meth:`close`."""
        self._file = file
        self._rows = rows
        self._queue: queue.Queue[Row | None] = queue.Queue(max_unwritten)
        self._num_lost = 0
        self._has_failed = False
        self._thread = threading.Thread(target=self._write_all, name="anaphora-request-log", daemon=True)
        self._thread.start()

    def note_start(self, engine: DescribedEngine) -> None:
        """Log the start itself: once, before all else."""
        start = self._rows.start(engine)
        self._put(lambda: start)

    def append(self, served: Served) -> None:
        """Log a request that has ended."""
        self._put(lambda: self._rows.served(served))

    def note_reset(self) -> None:
        """Log that the cache was emptied."""
        self._put(lambda: {"kind": "reset"})

    def close(self) -> None:
        """Write what waits, if that is done in time, and let go of the file."""
        try:
            self._queue.put(None, timeout=CLOSE_LIMIT_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_LIMIT_S)

    def _put(self, row: Row) -> None:
        if self._has_failed:
            return
        try:
            if self._num_lost:
                num_lost = self._num_lost
                self._queue.put_nowait(lambda: {"kind": "lost", "count": num_lost})
                self._num_lost = 0
            self._queue.put_nowait(row)
        except queue.Full:
            self._num_lost += 1

    def _write_all(self) -> None:
        """The thread: until it is told to end. Rows that come after a failed write are taken and forgotten."""
        while (row := self._queue.get()) is not None:
            if not self._has_failed:
                self._write(row)
        try:
            self._file.close()
        except OSError:
            self._fail()

    def _write(self, row: Row) -> None:
        try:
            self._file.write(json.dumps(row(), allow_nan=False) + "\n")
            if self._queue.empty():
                self._file.flush()
        except (OSError, ValueError):
            self._fail()

    def _fail(self) -> None:
        if not self._has_failed:
            self._has_failed = True
            _log.exception("cannot write the request log: requests are served, but no longer logged")
