"""The ends that nobody asked for: a front end that cannot begin, and an engine that stops."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.engine import EngineConfig, EngineHost
from anaphora.server.frontends.asides import Setup
from anaphora.server.frontends.supervisor import Supervisor
from anaphora.server.listener import bind_shared, url_of
from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.engine.harness import MemoryModel, memory_engine
from tests.patience import LOCAL


async def supervise(model_folder: Path, tokenizer: Tokenizer, use: Any) -> Supervisor:
    """A supervisor of two front ends on a memory model, after all of them have ended."""
    with bind_shared("127.0.0.1", 0, 2) as listeners:
        setup = Setup(ServerSettings(served_model_names=("m",)), str(model_folder), 5.0, False, None)
        supervisor = Supervisor(listeners, setup)
        await supervisor.spawn()
        load, model = memory_engine(tokenizer)
        host = await EngineHost.start(EngineConfig(), load=load)
        supervisor.welcome(host)
        await use(url_of(listeners[0]), model)
        await supervisor.ended()
        await host.shutdown()
        return supervisor


def test_a_front_end_that_cannot_begin_stops_the_server(tiny_model: Path, tmp_path: Path) -> None:
    async def wait(url: str, model: MemoryModel) -> None: ...

    supervisor = asyncio.run(supervise(tmp_path / "missing", Tokenizer.from_folder(tiny_model), wait))
    assert supervisor.has_failed


def test_an_engine_that_stops_is_told_to_clients_and_stops_the_server(
    tiny_model: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def die(batch: object) -> None:
        raise SystemExit("no more")

    async def ask(url: str, model: MemoryModel) -> None:
        model.before = die
        async with httpx.AsyncClient(**LOCAL) as client:
            while True:
                try:
                    response = await client.post(f"{url}/v1/completions", json={"prompt": [5]})
                    break
                except httpx.ConnectError:  # not yet
                    await asyncio.sleep(0.01)
        assert response.status_code == 503
        assert response.json()["error"]["message"] == "the engine has stopped: no more"

    supervisor = asyncio.run(supervise(tiny_model, Tokenizer.from_folder(tiny_model), ask))
    assert supervisor.has_failed
