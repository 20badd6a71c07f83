"""The two ways to serve: all in one process, or HTTP and text in processes beside the engine."""

import asyncio
import json
import logging
import socket
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from anaphora.cli.serve_settings import ServeSettings

if TYPE_CHECKING:
    from anaphora.checkpoints import Checkpoint
    from anaphora.engine import AsyncEngine, EngineConfig, EngineDescription
    from anaphora.server.frontends.asides import Setup
    from anaphora.server.settings import ServerSettings
    from anaphora.server.traffic_rows import RowMaker

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """All that is known before the model is loaded."""

    settings: ServeSettings
    for_engine: "EngineConfig"
    for_server: "ServerSettings"
    checkpoint: "Checkpoint"
    listeners: list[socket.socket]
    log_file: IO[str] | None


async def serve_alone(plan: Plan) -> bool:
    """All in this process. Whether it ended because the engine failed."""
    from anaphora.engine import AsyncEngine
    from anaphora.server.app import build_app
    from anaphora.server.logged_backend import LoggedBackend
    from anaphora.server.process import ServerProcess
    from anaphora.server.process_setup import settle_memory
    from anaphora.server.stats_log import log_stats
    from anaphora.server.traffic_log import TrafficLog
    from anaphora.server.traffic_rows import RowMaker

    settings = plan.settings
    engine = await AsyncEngine.start(plan.for_engine, checkpoint=plan.checkpoint)
    _log_banner(plan, engine)
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
    settle_memory()
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


async def serve_from_front_ends(plan: Plan) -> bool:
    """The engine here, HTTP and text in processes of their own. Whether it ended although nobody asked for it."""
    from anaphora.engine import EngineHost
    from anaphora.server.frontends.supervisor import Supervisor
    from anaphora.server.process import on_stop_signals
    from anaphora.server.process_setup import settle_memory
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
    _log_banner(plan, host.description)
    if plan.log_file is not None:
        plan.log_file.write(json.dumps(rows.start(host.description)) + "\n")
    settle_memory()
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


def _log_banner(plan: Plan, engine: "AsyncEngine | EngineDescription") -> None:
    """What is served and how; the effective prefix caching above all."""
    from anaphora.tokenizer import why_no_chats

    settings = plan.settings
    _log.info("serving %s as %s", engine.model_name, ", ".join(plan.for_server.served_model_names))
    reason = why_no_chats(plan.checkpoint.path)
    if reason is not None:
        _log.warning("this model answers no chats, text completions only: %s", reason)
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
    if not plan.for_server.api_keys and settings.host not in ("127.0.0.1", "::1", "localhost"):
        _log.warning("listening on %s without an API key: whoever reaches it may use it", settings.host)
