"""``anaphora serve`` whose own process notes when a request passes each station, and writes that down at its end.

    python -m benchmarks.gpu.serving.traced_server STAMPS.json serve MODEL ...

Each stamp is a station, the time, and a number: tokens of a pass where one is planned, else 0.
"""

import atexit
import functools
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anaphora.cli.main import main
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.engine_host import EngineHost
from anaphora.engine.gpu.flat_batch import FlatBatch
from anaphora.engine.gpu.launcher import PassLauncher
from anaphora.engine.gpu.runner import GpuRunner
from anaphora.server.event_stream import EventStream
from anaphora.server.http_protocol import HttpProtocol

ENTERED: tuple[tuple[str, type, str], ...] = (
    ("received", HttpProtocol, "data_received"),
    ("handed over", EngineHost, "add"),
    ("taken by the engine", EngineCore, "add"),
    ("stepping", EngineCore, "step"),
    ("planning", PassLauncher, "launch"),
    ("delivered", EngineHost, "_deliver"),
    ("answering", EventStream, "__init__"),
)
LEFT: tuple[tuple[str, type, str], ...] = (
    ("launched", PassLauncher, "launch"),
    ("sampled", GpuRunner, "landed"),
    ("stepped", EngineCore, "step"),
)
"""Station, and the method that marks it by being called, or by returning."""

_stamps: list[tuple[str, float, int]] = []


def _marked(station: str, method: Callable[..., Any], *, at_end: bool) -> Callable[..., Any]:
    @functools.wraps(method)
    def marking(*args: Any, **kwargs: Any) -> Any:
        if not at_end:
            number = args[1].num_tokens if len(args) > 1 and isinstance(args[1], FlatBatch) else 0
            _stamps.append((station, time.perf_counter(), number))
        result = method(*args, **kwargs)
        if at_end:
            _stamps.append((station, time.perf_counter(), 0))
        return result

    return marking


if __name__ == "__main__":
    for stations, is_end in ((ENTERED, False), (LEFT, True)):
        for name, owner, method_name in stations:
            setattr(owner, method_name, _marked(name, getattr(owner, method_name), at_end=is_end))
    file = Path(sys.argv.pop(1))
    atexit.register(lambda: file.write_text(json.dumps(_stamps)))
    main()
