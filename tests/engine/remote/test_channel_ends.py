"""Either end may go at any moment: no block stays behind, and nobody waits for ever."""

import asyncio
import threading
from typing import Any

import pytest

from anaphora.engine import EngineConfig
from anaphora.engine.sampling_params import SamplingParams
from anaphora.errors import EngineDeadError, RequestError
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace
from tests.engine.harness import memory_engine, request
from tests.engine.remote_engine import RemoteEngine
from tests.patience import PATIENCE_S

LONG = SamplingParams(temperature=0, max_tokens=200, ignore_eos=True)


def with_engine(tokenizer: Tokenizer, use: Any) -> None:
    async def run() -> None:
        load, model = memory_engine(tokenizer, num_blocks=200)
        engine = await RemoteEngine.start(EngineConfig(), load=load)
        try:
            await use(engine, model)
        finally:
            engine.port.close()
            await engine.caller_is_lost.wait()
            await engine.host.shutdown()

    asyncio.run(run())


def test_a_caller_that_goes_takes_its_requests_along(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: RemoteEngine, model: Any) -> None:
        streams = [engine.generate(request(name, range(20), LONG)) for name in "abc"]
        await asyncio.gather(*[anext(stream) for stream in streams])
        engine.port.close()
        await engine.caller_is_lost.wait()
        for stream in streams:
            with pytest.raises(EngineDeadError, match="its process has gone"):
                async for _ in stream:
                    pass
        while engine.stats().num_running or engine.stats().num_waiting:
            await asyncio.sleep(0.001)
        stats = engine.stats()
        assert stats.num_free_blocks == stats.num_blocks
        assert stats.num_finished == {"abort": 3}
        with pytest.raises(EngineDeadError):
            await engine.fetch_stats()
        assert not engine.is_healthy

    with_engine(tiny_tokenizer, use)


def test_an_engine_that_ends_is_told_to_streams_and_askers(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: RemoteEngine, model: Any) -> None:
        is_open, was_reached = threading.Event(), threading.Event()

        def die(batch: Any) -> None:
            was_reached.set()
            assert is_open.wait(PATIENCE_S)
            raise SystemExit("no more")

        model.before = die
        stream = engine.generate(request("a", range(20), LONG))
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.to_thread(was_reached.wait, 20)
        asking = asyncio.ensure_future(engine.cache.namespaces())
        await asyncio.sleep(0)
        is_open.set()
        for task in (waiting, asking):
            with pytest.raises(EngineDeadError, match="no more"):
                await task

    with_engine(tiny_tokenizer, use)


def test_the_ledger_comes_once_and_counts_in_every_output(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: RemoteEngine, model: Any) -> None:
        async for _ in engine.generate(request("a", range(20))):
            pass
        usages = [output.usage async for output in engine.generate(request("b", range(20)))]
        assert {usage.num_cached_tokens for usage in usages} == {16}
        assert usages[0].ledger == usages[-1].ledger
        pin = await engine.cache.pin("p", Namespace(""), range(20))
        assert (await engine.cache.pins()).pins == (pin,)
        with pytest.raises(RequestError):
            await engine.cache.pin("q", Namespace(""), [-1] * 20)
        assert await engine.cache.unpin("p")
        assert await engine.cache.namespaces() == [""]
        assert {node.namespace for node in await engine.cache.tree(None, 10)} == {""}

    with_engine(tiny_tokenizer, use)
