"""Whom a run measures: servers that stand, or that are started for it, one for each arm or one at a time."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anaphora.lab.address import BaseUrl
from anaphora.lab.dialects import dialect_named
from anaphora.lab.options import BY_FLAG, OURS, STARTED_FOR_THE_RUN, BenchOptions
from anaphora.lab.profiles.endpoint import Endpoint, endpoint_of
from anaphora.lab.runner import Notes
from anaphora.lab.targets import system_role
from anaphora.lab.targets.in_turn import InTurn
from anaphora.lab.targets.launch import LaunchCommand, ours
from anaphora.lab.targets.managed import ManagedServer, free_port
from anaphora.lab.targets.openai import OpenAITarget


async def open_servers(
    options: BenchOptions, folder: Path, stack: AsyncExitStack, observer: Notes
) -> Mapping[str, OpenAITarget]:
    """Whom the options name, ready and with a model chosen, until ``stack`` closes: ``on`` and ``off`` where a flag
    makes the arms, one of these at a time if it is by restart, else ``main``."""
    if options.target != OURS:
        return {"main": await _reach(options, stack, observer)}
    launched = _Launched(options, folder, observer)
    if options.arms == "restart":
        in_turn = await stack.enter_async_context(InTurn(launched.start))
        await in_turn.take_turn("on")
        return in_turn
    return {
        name: await launched.start(name, stack) for name in (("on", "off") if options.arms == "flag" else ("main",))
    }


@dataclass(slots=True)
class _Launched:
    """Starts the servers of a run: ours or another one's."""

    options: BenchOptions
    folder: Path
    observer: Notes
    _num_starts: Counter[str] = field(default_factory=Counter)

    async def start(self, name: str, stack: AsyncExitStack) -> OpenAITarget:
        """The server of that name, ready, until ``stack`` closes. ``off`` has no prefix cache."""
        options, port = self.options, free_port()
        launch = LaunchCommand.parse(options.launch) if options.launch else ours(options.model)
        command = launch.of(port, prefix_caching=name != "off", extra=options.server_options)
        self.observer.note(f"starting the server{'' if name == 'main' else f' with caching {name}'}")
        server = await stack.enter_async_context(ManagedServer(command, self._log(name)))
        dialect = None if options.kind is None else dialect_named(options.kind)
        target = OpenAITarget(BaseUrl.parse(f"http://127.0.0.1:{port}"), clock=time.monotonic_ns, dialect=dialect)
        target.leaves_cache_to_flag = options.arms in BY_FLAG
        await server.wait_until_ready(target, limit_s=options.wait_s, on_wait=self.observer.waiting)
        await _prepare(target, None, stack)
        if options.launch is not None or options.model is not None:  # the default model has system messages
            await _first_answer(target, options, self.observer)
        return target

    def _log(self, name: str) -> Path:
        """One file for each start."""
        self._num_starts[name] += 1
        number = self._num_starts[name]
        return self.folder / f"server-{name}{'' if number == 1 else f'-{number}'}.log"


async def _reach(options: BenchOptions, stack: AsyncExitStack, observer: Notes) -> OpenAITarget:
    target = await find_target(options, stack, observer.waiting)
    await _first_answer(target, options, observer)
    return target


async def _first_answer(target: OpenAITarget, options: BenchOptions, observer: Notes) -> None:
    await target.wait_until_answering(limit_s=options.wait_s, on_wait=observer.waiting)
    if not target.takes_system:
        observer.note(system_role.NOTE)


async def find_target(options: BenchOptions, stack: AsyncExitStack, on_wait: Callable[[str], None]) -> OpenAITarget:
    """The one server of a URL or a profile, without a chat being asked of it."""
    found = endpoint_for(options)
    target = found.target()
    await target.wait_until_ready(limit_s=options.wait_s, on_wait=on_wait)
    await _prepare(target, found.model, stack)
    return target


def endpoint_for(options: BenchOptions) -> Endpoint:
    """Where a URL or a profile leads."""
    return endpoint_of(options.target, model=options.model, api_key_env=options.api_key_env, kind=options.kind)


async def _prepare(target: OpenAITarget, model: str | None, stack: AsyncExitStack) -> None:
    stack.push_async_callback(target.close)
    await target.choose_model(model)
    await target.identify()
    await target.open_connection()


async def describe(options: BenchOptions, target: OpenAITarget, cache_settings: Mapping[str, Any]) -> dict[str, Any]:
    """Who is measured, as the records' header says it."""
    found = None if options.target == OURS else endpoint_for(options)
    return {
        "kind": target.dialect.title,
        "kind_is": "said" if target.is_forced else "detected",
        "kind_evidence": target.dialect.evidence.value,
        "profile": None if found is None else found.profile,
        "base_url": STARTED_FOR_THE_RUN if found is None else str(target.base),
        "model": target.model,
        "version": await target.version(),
        "max_model_len": target.max_model_len,
        "takes_system": target.takes_system,
        "prices": None if found is None or found.prices is None else found.prices.as_stored(),
        "cache_settings": dict(cache_settings),
    }
