"""``anaphora serve``: settings, socket, model, server, in this order, so that mistakes are told before the wait."""

import asyncio
import contextlib
import dataclasses
import importlib.util
import json
import logging
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import typer

from anaphora.cli.keys import admin_key, api_keys
from anaphora.cli.serve_settings import ServeSettings
from anaphora.cli.serving import Plan, serve_alone, serve_from_front_ends
from anaphora.cli.settings_options import with_settings
from anaphora.cli.settings_sources import resolve
from anaphora.errors import MissingExtraError

if TYPE_CHECKING:
    from anaphora.engine import EngineConfig
    from anaphora.server.settings import ServerSettings

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
            has_failed = runner.run(
                serve_alone(plan) if settings.api_server_count == 0 else serve_from_front_ends(plan)
            )
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


def _request_log(path: str) -> IO[str]:
    from anaphora.server.traffic_log import open_log_file

    return open_log_file(Path(path))
