"""``anaphora serve``: settings, socket, model, server, in this order, so that mistakes are told before the wait."""

import asyncio
import contextlib
import dataclasses
import importlib.util
import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import dataclass
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
    from anaphora.engine import AsyncEngine, EngineConfig, EngineDescription
    from anaphora.server.frontends.asides import Setup
    from anaphora.server.settings import ServerSettings
    from anaphora.server.traffic_rows import RowMaker

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
    from anaphora.server.process_setup import set_up_process

    set_up_process()
    with contextlib.ExitStack() as stack:
        listeners = stack.enter_context(_listeners(settings))
        log_file = None if settings.request_log is None else stack.enter_context(_request_log(settings.request_log))
        with TerminalProgress() as progress:
            checkpoint = find_checkpoint(
                settings.model, progress=progress, needs_weights=settings.load_format != "dummy"
            )
        _log.info("settings: %s", json.dumps(told))
        for_server = server_settings(settings, checkpoint.name)
        plan = Plan(settings, for_engine, for_server, checkpoint, listeners, log_file)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            has_failed = runner.run(_serve(plan) if settings.api_server_count == 0 else _serve_from_front_ends(plan))
    if has_failed:
        raise typer.Exit(1)


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
    for module in ("torch", "starlette", "uvicorn", "httptools", "uvloop", "msgspec"):
        if importlib.util.find_spec(module) is None:
            raise MissingExtraError(f"serve needs {module}: pip install 'anaphora[engine]'")


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is known before the model is loaded."""

    settings: ServeSettings
    for_engine: "EngineConfig"
    for_server: "ServerSettings"
    checkpoint: "Checkpoint"
    listeners: list[socket.socket]
    log_file: IO[str] | None


@contextlib.contextmanager
def _listeners(settings: ServeSettings) -> Iterator[list[socket.socket]]:
    """One for each process that will accept connections; closed at the end."""
    from anaphora.server.listener import bind, bind_shared

    if settings.api_server_count == 0:
        with bind(settings.host, settings.port) as listener:
            yield [listener]
    else:
        with bind_shared(settings.host, settings.port, settings.api_server_count) as listeners:
            yield listeners


async def _serve(plan: Plan) -> bool:
    """All in this process. Whether it ended because the engine failed."""
    from anaphora.engine import AsyncEngine
    from anaphora.server.app import build_app
    from anaphora.server.logged_backend import LoggedBackend
    from anaphora.server.process import ServerProcess
    from anaphora.server.stats_log import log_stats
    from anaphora.server.traffic_log import TrafficLog
    from anaphora.server.traffic_rows import RowMaker

    settings = plan.settings
    engine = await AsyncEngine.start(plan.for_engine, checkpoint=plan.checkpoint)
    _log_banner(settings, plan.for_server, engine)
    log = None
    if plan.log_file is not None:
        log = TrafficLog(plan.log_file, RowMaker.now(settings.request_log_content, settings.block_size))
        log.note_start(engine)
    process = ServerProcess(
        build_app(engine if log is None else LoggedBackend(engine, log), plan.for_server),
        stop_engine=lambda drain_s: engine.shutdown(drain_s=drain_s),
        drain_s=settings.drain_seconds,
        access_log=settings.access_log,
    )
    tasks = [asyncio.create_task(log_stats(engine.stats)), asyncio.create_task(process.end_after(engine.has_died))]
    try:
        await process.serve(sockets=plan.listeners)
    finally:
        for task in tasks:
            task.cancel()
        await engine.shutdown(drain_s=0)
        if log is not None:
            await asyncio.to_thread(log.close)
    return process.has_failed


async def _serve_from_front_ends(plan: Plan) -> bool:
    """The engine here, HTTP and text in processes of their own. Whether it ended although nobody asked for it."""
    from anaphora.engine import EngineHost
    from anaphora.server.frontends.supervisor import Supervisor
    from anaphora.server.process import on_stop_signals
    from anaphora.server.stats_log import log_stats
    from anaphora.server.traffic_rows import RowMaker

    settings = plan.settings
    rows = RowMaker.now(settings.request_log_content, settings.block_size)
    supervisor = Supervisor(plan.listeners, _front_end_setup(plan, rows))
    await supervisor.spawn()
    try:
        host = await EngineHost.start(plan.for_engine, checkpoint=plan.checkpoint)
    except BaseException:
        supervisor.kill()
        await supervisor.ended()
        raise
    _log_banner(settings, plan.for_server, host.description)
    if plan.log_file is not None:
        plan.log_file.write(json.dumps(rows.start(host.description)) + "\n")
    stats = asyncio.create_task(log_stats(host.stats))
    try:
        with on_stop_signals(supervisor.heed):
            supervisor.welcome(host)
            await supervisor.ended()
    finally:
        stats.cancel()
        supervisor.kill()
        await host.shutdown()
    return supervisor.has_failed


def _front_end_setup(plan: Plan, rows: "RowMaker") -> "Setup":
    from anaphora.server.frontends.asides import RequestLogSetup, Setup

    path = plan.settings.request_log
    return Setup(
        settings=plan.for_server,
        model_folder=str(plan.checkpoint.path.resolve()),
        drain_s=plan.settings.drain_seconds,
        access_log=plan.settings.access_log,
        request_log=None if path is None else RequestLogSetup(path, rows),
    )


def _request_log(path: str) -> IO[str]:
    from anaphora.server.traffic_log import open_log_file

    return open_log_file(Path(path))


def _log_banner(
    settings: ServeSettings, for_server: "ServerSettings", engine: "AsyncEngine | EngineDescription"
) -> None:
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
