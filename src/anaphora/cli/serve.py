"""``anaphora serve``: settings, socket, model, server, in this order, so that mistakes are told before the wait."""

import asyncio
import contextlib
import dataclasses
import importlib.util
import json
import logging
import socket
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from anaphora.cli.keys import admin_key, api_keys
from anaphora.cli.serve_settings import ServeSettings
from anaphora.cli.settings_options import with_settings
from anaphora.cli.settings_sources import resolve
from anaphora.errors import MissingExtraError

if TYPE_CHECKING:
    from anaphora.checkpoints import Checkpoint
    from anaphora.engine import AsyncEngine, EngineConfig
    from anaphora.server.settings import ServerSettings

SWITCH_INTERVAL_S = 0.00005
"""How long one thread of Python may keep another from running. Engine and event loop hand a request to and fro, and at
Python's 5 ms each hand-over may wait that long: a hit of 30 000 tokens then takes three times the host's time."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("serve")(with_settings(serve))


def serve(given: dict[str, Any], config: Path | None, dry_run: bool) -> None:
    """Serve a model with the OpenAI API and a prefix cache."""
    settings = resolve(given, config)
    told = shown(settings)
    if dry_run:
        print(json.dumps(told, indent=2))
        return
    for_engine = engine_config(settings)
    _require_engine()
    import uvloop

    from anaphora.checkpoints import TerminalProgress, find_checkpoint
    from anaphora.server.listener import bind

    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt="%H:%M:%S")
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(bind(settings.host, settings.port))
        log_file = None if settings.request_log is None else stack.enter_context(_request_log(settings.request_log))
        with TerminalProgress() as progress:
            checkpoint = find_checkpoint(
                settings.model, progress=progress, needs_weights=settings.load_format != "dummy"
            )
        _log.info("settings: %s", json.dumps(told))
        for_server = server_settings(settings, checkpoint.name)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings, for_engine, for_server, checkpoint, listener, log_file))


def shown(settings: ServeSettings) -> dict[str, Any]:
    """All settings by name; of the keys only how many there are, as logs are read by many."""
    keys = {"api_key": len(api_keys(settings)), "admin_key": admin_key(settings) is not None}
    return {**dataclasses.asdict(settings), **keys}


def engine_config(settings: ServeSettings) -> "EngineConfig":
    """The part that is the engine's; the names are the same.

    Raises:
        ConfigError: a value is out of its range.
    """
    from anaphora.engine import EngineConfig
    from anaphora.kvcache.config import CacheConfig

    CacheConfig(num_blocks=1, eviction_policy=settings.eviction_policy)  # an unknown one is told before the model loads
    own = {field.name for field in dataclasses.fields(EngineConfig)}
    values = {name: value for name, value in dataclasses.asdict(settings).items() if name in own}
    if settings.gpu_memory_utilization is None:
        del values["gpu_memory_utilization"]
    return EngineConfig(**values)


def server_settings(settings: ServeSettings, model_name: str) -> "ServerSettings":
    """The part that is the server's. ``model_name``: what the model is called if nobody says otherwise.

    Raises:
        ConfigError: a key is empty or its file cannot be read.
    """
    from anaphora.server.settings import ServerSettings

    return ServerSettings(
        served_model_names=settings.served_model_name or (settings.model or model_name,),
        api_keys=api_keys(settings),
        admin_key=admin_key(settings),
        public_metrics=settings.public_metrics,
        max_body_bytes=settings.max_body_bytes,
        max_choices=settings.max_choices,
    )


def _require_engine() -> None:
    """Look for what the extra brings, without the seconds that importing it takes: the port comes first."""
    for module in ("torch", "starlette", "uvicorn", "httptools", "uvloop"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"serve needs {module}: pip install 'anaphora[engine]'")


async def _serve(
    settings: ServeSettings,
    for_engine: "EngineConfig",
    for_server: "ServerSettings",
    checkpoint: "Checkpoint",
    listener: socket.socket,
    log_file: IO[str] | None,
) -> None:
    from anaphora.engine import AsyncEngine
    from anaphora.server.app import build_app
    from anaphora.server.logged_backend import LoggedBackend
    from anaphora.server.process import ServerProcess
    from anaphora.server.stats_log import log_stats
    from anaphora.server.traffic_log import TrafficLog

    engine = await AsyncEngine.start(for_engine, checkpoint=checkpoint)
    _log_banner(settings, for_server, engine)
    log = None if log_file is None else TrafficLog(log_file, engine, settings.request_log_content)
    process = ServerProcess(
        build_app(engine if log is None else LoggedBackend(engine, log), for_server),
        stop_engine=lambda drain_s: engine.shutdown(drain_s=drain_s),
        drain_s=settings.drain_seconds,
        access_log=settings.access_log,
    )
    stats = asyncio.create_task(log_stats(engine))
    try:
        await process.serve(sockets=[listener])
    finally:
        stats.cancel()
        await engine.shutdown(drain_s=0)
        if log is not None:
            await asyncio.to_thread(log.close)


def _request_log(path: str) -> IO[str]:
    from anaphora.server.traffic_log import open_log_file

    return open_log_file(Path(path))


def _log_banner(settings: ServeSettings, for_server: "ServerSettings", engine: "AsyncEngine") -> None:
    """What is served and how; the effective prefix caching above all."""
    _log.info("serving %s as %s", engine.model_name, ", ".join(for_server.served_model_names))
    if settings.enable_prefix_caching:
        _log.info("prefix caching is on: shared beginnings of at least %d tokens are reused", settings.block_size)
    else:
        _log.info("prefix caching is off")
    if settings.request_log is not None:
        _log.info("requests are logged to %s, prompts as %s", settings.request_log, settings.request_log_content)
    if settings.gpu_memory_utilization is not None and not engine.is_on_gpu:
        _log.info("gpu_memory_utilization has no effect on CPU: kv_cache_memory_bytes sizes the KV cache")
    if settings.api_key or settings.admin_key:
        _log.warning("keys on the command line show in the process list: prefer the environment or a file")
    if not for_server.api_keys and settings.host not in ("127.0.0.1", "::1", "localhost"):
        _log.warning("listening on %s without an API key: whoever reaches it may use it", settings.host)
