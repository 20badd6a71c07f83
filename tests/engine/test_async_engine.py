import asyncio
import contextlib
import itertools
import random
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from anaphora.engine import AsyncEngine, EngineConfig, SamplingParams
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import RequestOutput
from anaphora.engine.request_stream import join_outputs
from anaphora.errors import (
    ConfigError,
    EngineDeadError,
    EngineOverloadedError,
    EngineStepError,
    PromptTooLongError,
    RequestError,
)
from anaphora.models.batch import ForwardBatch
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId
from tests.engine.harness import MemoryModel, continuation, memory_engine, request
from tests.engine.remote_engine import RemoteEngine
from tests.patience import PATIENCE_S

PROMPT = tuple(range(10, 19))
LONG = SamplingParams(temperature=0, max_tokens=100, ignore_eos=True)


class Gate:
    """Holds the model up until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.was_reached = threading.Event()

    def __call__(self, batch: ForwardBatch) -> None:
        self.was_reached.set()
        assert self.is_open.wait(timeout=PATIENCE_S)

    async def reached(self) -> None:
        await asyncio.to_thread(self.was_reached.wait, PATIENCE_S)


Engine = AsyncEngine | RemoteEngine
engine_class: type[Engine] = AsyncEngine


@pytest.fixture(params=[AsyncEngine, RemoteEngine], ids=["in-process", "remote"], autouse=True)
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test here is run both ways: the core in the caller's process, and behind a channel."""
    monkeypatch.setattr(sys.modules[__name__], "engine_class", request.param)


def serve(
    tokenizer: Tokenizer,
    use: Callable[[Engine, MemoryModel], Awaitable[None]],
    *,
    config: EngineConfig | None = None,
    is_alive: bool = True,
    **options: Any,
) -> None:
    """Run ``use`` with an engine on a memory model, and shut the engine down: nothing may be left if it was alive."""

    async def run() -> None:
        load, model = memory_engine(tokenizer, **options)
        engine = await engine_class.start(config or EngineConfig(), load=load)
        try:
            await use(engine, model)
        finally:
            await engine.shutdown()
        if is_alive:
            stats = engine.stats()
            assert (stats.num_running, stats.num_waiting, stats.num_free_blocks) == (0, 0, stats.num_blocks)
        assert no_engine_thread_is_left()

    asyncio.run(run())


async def complete(engine: Engine, name: str, prompt: Any = PROMPT, *args: Any, **fields: Any) -> RequestOutput:
    return join_outputs([output async for output in engine.generate(request(name, prompt, *args, **fields))])


async def settled(engine: Engine) -> None:
    """Wait until the worker has released everything."""
    for _ in range(2000):
        await asyncio.sleep(0.005)
        stats = engine.stats()
        if stats.num_running == stats.num_waiting == 0 and stats.num_free_blocks == stats.num_blocks:
            await engine.fetch_stats()  # its answer comes behind all outputs, however far they had to go
            return
    raise AssertionError(f"blocks are left behind: {engine.stats()}")


async def seen(engine: Engine, num_requests: int) -> None:
    """Wait until the engine counts so many requests."""
    while engine.stats().num_running + engine.stats().num_waiting != num_requests:
        await asyncio.sleep(0)


def test_many_requests_stream_at_once(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        prompts = {str(n): (*PROMPT, n) for n in range(20)}
        results = await asyncio.gather(*[complete(engine, name, prompt) for name, prompt in prompts.items()])
        for prompt, result in zip(prompts.values(), results, strict=True):
            assert result.token_ids == continuation(prompt, 8)
            assert result.text == tiny_tokenizer.decode(result.token_ids)
            assert result.finish_reason == "length"
            times = result.times
            assert times.scheduled_s is not None
            assert times.first_token_s is not None
            assert times.finished_s is not None
            assert times.arrived_s <= times.scheduled_s <= times.first_token_s <= times.finished_s
        stats = engine.stats()
        assert (stats.num_prompt_tokens, stats.num_output_tokens) == (200, 160)
        assert sum(stats.tokens_by_reason.values()) == 200
        assert stats.num_finished == {"length": 20}

    serve(tiny_tokenizer, use, num_blocks=200)


def test_the_config_tells_the_token_budget_that_it_came_to(tiny_tokenizer: Tokenizer) -> None:
    """Without a setting it depends on the device."""

    async def use(engine: Engine, model: MemoryModel) -> None:
        assert engine.config.max_num_batched_tokens == 33

    serve(tiny_tokenizer, use, config=EngineConfig(), max_num_batched_tokens=33)


def test_tokens_come_one_by_one_to_whoever_takes_them(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        go_on = threading.Semaphore(0)
        model.before = lambda batch: assert_true(go_on.acquire(timeout=PATIENCE_S))
        counts = []
        go_on.release()
        async for output in engine.generate(request("a", PROMPT)):
            counts.append(len(output.token_ids))
            go_on.release()
        assert counts == [1] * 8

    serve(tiny_tokenizer, use)


def test_what_nobody_takes_is_joined(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        go_on = threading.Semaphore(1)
        model.before = lambda batch: assert_true(go_on.acquire(timeout=PATIENCE_S))
        stream = engine.generate(request("a", PROMPT))
        first = await anext(stream)
        go_on.release(7)
        await settled(engine)
        rest = await anext(stream)
        assert first.token_ids + rest.token_ids == continuation(PROMPT, 8)
        assert rest.finish_reason == "length"
        with pytest.raises(StopAsyncIteration):
            await anext(stream)

    serve(tiny_tokenizer, use)


def test_a_stop_string_ends_the_request_in_the_core_too(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        said = tiny_tokenizer.decode(continuation(PROMPT, 40))
        stop = said[10:14]
        params = SamplingParams(temperature=0, max_tokens=200, stop=(stop,))
        result = await complete(engine, "a", PROMPT, params)
        assert result.text == said[: said.index(stop)]
        assert (result.finish_reason, result.stop_reason) == ("stop", stop)
        await settled(engine)
        assert engine.stats().num_output_tokens < 200

    serve(tiny_tokenizer, use)


def test_an_id_may_be_used_again_as_soon_as_the_core_has_let_go(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        gate = model.before = Gate()
        stream = engine.generate(request("a", PROMPT, LONG))
        taking = asyncio.ensure_future(anext(stream))
        await gate.reached()
        with pytest.raises(RequestError, match="'a' is in use"):
            engine.generate(request("a", PROMPT))
        taking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await taking
        with pytest.raises(RequestError, match="'a' is in use"):
            engine.generate(request("a", PROMPT))
        gate.is_open.set()
        await settled(engine)
        assert (await complete(engine, "a")).token_ids == continuation(PROMPT, 8)

    serve(tiny_tokenizer, use)


def test_closing_the_generator_aborts(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        stream = engine.generate(request("a", PROMPT, LONG))
        await anext(stream)
        await stream.aclose()
        await settled(engine)
        assert engine.stats().num_finished == {"abort": 1}

    serve(tiny_tokenizer, use)


def test_a_generator_that_was_never_asked_leaves_nothing(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        await engine.generate(request("a", PROMPT, LONG)).aclose()
        assert engine.stats().num_prompt_tokens == 0
        assert not model.batches

    serve(tiny_tokenizer, use)


def test_abort_ends_the_stream(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        stream = engine.generate(request("a", PROMPT, LONG))
        outputs = [await anext(stream)]
        await engine.abort(RequestId("a"))
        await engine.abort(RequestId("nobody"))
        outputs += [output async for output in stream]
        result = join_outputs(outputs)
        assert result.finish_reason == "abort"
        assert result.token_ids == continuation(PROMPT, len(result.token_ids))
        assert result.usage.ledger.num_prompt_tokens == 9

    serve(tiny_tokenizer, use)


def test_two_hundred_disconnects_at_random_times_leave_no_block_behind(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        chance = random.Random(3)

        async def client(index: int) -> None:
            stop_after, way = chance.randrange(8), chance.randrange(3)
            stream = engine.generate(request(str(index), (*PROMPT[: index % 9], index % 90), LONG))
            await asyncio.sleep(chance.random() * 0.3)
            if way == 0:  # the task is cancelled while it waits
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(chance.random() * 0.02):
                        async for _ in stream:
                            pass
            else:
                for _ in range(stop_after):
                    await anext(stream)
                if way == 1:  # the stream is closed
                    await stream.aclose()
                # else the stream is dropped, and closed by the loop's finalizer

        await asyncio.gather(*[client(index) for index in range(200)])
        await settled(engine)
        # what was cached meanwhile is right
        for index in range(9):
            prompt = (*PROMPT[:index], index)
            assert (await complete(engine, f"after-{index}", prompt)).token_ids == continuation(prompt, 8)

    serve(tiny_tokenizer, use, num_blocks=120, max_num_batched_tokens=60, max_num_seqs=16)


def test_wrong_requests_are_refused_at_once(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        with pytest.raises(PromptTooLongError, match="256 tokens together, but 308"):
            engine.generate(request("a", range(300)))
        with pytest.raises(RequestError, match="at least one token"):
            engine.generate(request("a", ()))
        assert engine.is_healthy

    serve(tiny_tokenizer, use)


def test_too_many_requests_are_an_overload(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        gate = model.before = Gate()
        tasks = [asyncio.ensure_future(complete(engine, name)) for name in "abc"]
        await gate.reached()
        await asyncio.wait_for(seen(engine, 3), PATIENCE_S)
        with pytest.raises(EngineOverloadedError, match="3 requests are being served or wait"):
            await complete(engine, "d")
        gate.is_open.set()
        await asyncio.gather(*tasks)
        assert (await complete(engine, "d")).finish_reason == "length"

    serve(tiny_tokenizer, use, config=EngineConfig(max_num_seqs=1, max_waiting_requests=2))


def test_a_failed_step_is_told_and_survived(tiny_tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        model.before = raise_once()
        with pytest.raises(EngineStepError, match="send it again"):
            await complete(engine, "a")
        assert (await complete(engine, "b")).token_ids == continuation(PROMPT, 8)
        assert engine.is_healthy

    serve(tiny_tokenizer, use)


def test_a_dying_worker_is_told_to_everybody(tiny_tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        gate = Gate()

        def die(batch: ForwardBatch) -> None:
            gate(batch)
            raise SystemExit("no more")  # nothing that a step survives

        model.before = die
        tasks = [asyncio.ensure_future(complete(engine, name)) for name in "abc"]
        await gate.reached()
        reset = asyncio.ensure_future(engine.reset_prefix_cache())
        await asyncio.sleep(0)
        gate.is_open.set()
        for task in [*tasks, reset]:
            with pytest.raises(EngineDeadError, match="no more"):
                await task
        assert not engine.is_healthy
        with pytest.raises(EngineDeadError, match="no more"):
            engine.generate(request("d", PROMPT))
        with pytest.raises(EngineDeadError, match="no more"):
            await engine.reset_prefix_cache()

    serve(tiny_tokenizer, use, is_alive=False)


def test_the_cache_is_reset_when_nothing_runs(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        await complete(engine, "a")
        assert (await complete(engine, "b")).usage.num_cached_tokens == 8
        gate = model.before = Gate()
        task = asyncio.ensure_future(complete(engine, "c"))
        await gate.reached()
        reset = asyncio.ensure_future(engine.reset_prefix_cache())
        await asyncio.sleep(0)
        await engine.fetch_stats()  # asked behind it, answered at once: so the engine has been asked for the reset
        gate.is_open.set()
        assert not await reset
        await task
        assert await engine.reset_prefix_cache()
        assert (await complete(engine, "d")).usage.num_cached_tokens == 0

    serve(tiny_tokenizer, use)


def test_shutdown_lets_requests_finish_and_takes_no_new_ones(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        gate = model.before = Gate()
        task = asyncio.ensure_future(complete(engine, "a"))
        await gate.reached()
        closing = asyncio.ensure_future(engine.shutdown())
        await asyncio.sleep(0)
        assert not engine.is_healthy
        with pytest.raises(EngineDeadError, match="shutting down"):
            engine.generate(request("b", PROMPT))
        gate.is_open.set()
        assert (await task).token_ids == continuation(PROMPT, 8)
        await closing
        with pytest.raises(EngineDeadError, match="it was shut down"):
            engine.generate(request("c", PROMPT))

    serve(tiny_tokenizer, use)


def test_shutdown_aborts_what_takes_too_long(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        model.before = lambda batch: time.sleep(0.005)
        task = asyncio.ensure_future(complete(engine, "a", PROMPT, LONG))
        await asyncio.sleep(0.02)
        await engine.shutdown(drain_s=0)
        assert (await task).finish_reason == "abort"

    serve(tiny_tokenizer, use)


def test_an_idle_engine_sleeps(tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    num_steps = itertools.count()
    step = EngineCore.step
    monkeypatch.setattr(EngineCore, "step", lambda core: (next(num_steps), step(core))[1])

    async def use(engine: Engine, model: MemoryModel) -> None:
        await complete(engine, "a")
        await asyncio.sleep(0.05)
        assert next(num_steps) == 9  # the last of them found nothing to do

    serve(tiny_tokenizer, use)


def test_requests_that_the_worker_has_not_seen_yet_are_waiting(tiny_tokenizer: Tokenizer) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        gate = model.before = Gate()
        tasks = [asyncio.ensure_future(complete(engine, "a"))]
        await gate.reached()
        tasks.append(asyncio.ensure_future(complete(engine, "b")))
        await asyncio.wait_for(seen(engine, 2), PATIENCE_S)
        gate.is_open.set()
        await asyncio.gather(*tasks)
        assert engine.stats().num_waiting == 0

    serve(tiny_tokenizer, use)


def test_what_fails_in_loading_is_told(tmp_path: Any) -> None:
    def load(config: EngineConfig, checkpoint: Any) -> Any:
        raise ConfigError("that cannot be")

    with pytest.raises(ConfigError, match="that cannot be"):
        asyncio.run(start_only(load))


async def start_only(load: Any) -> None:
    await engine_class.start(EngineConfig(), load=load)


def test_whoever_gives_up_while_it_loads_leaves_no_thread(tiny_tokenizer: Tokenizer) -> None:
    go_on = threading.Event()

    def load(config: EngineConfig, checkpoint: Any) -> Any:
        assert go_on.wait(timeout=PATIENCE_S)
        return memory_engine(tiny_tokenizer)[0](config, checkpoint)

    async def run() -> None:
        starting = asyncio.ensure_future(start_only(load))
        await asyncio.sleep(0.01)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(run())
    go_on.set()
    assert no_engine_thread_is_left()


def test_a_loop_that_ends_without_a_shutdown_ends_the_thread(tiny_tokenizer: Tokenizer) -> None:
    gate = Gate()

    async def run() -> None:
        load, model = memory_engine(tiny_tokenizer)
        model.before = gate
        engine = await AsyncEngine.start(EngineConfig(), load=load)
        task = asyncio.ensure_future(complete(engine, "a"))
        await gate.reached()
        task.cancel()

    asyncio.run(run())
    gate.is_open.set()
    assert no_engine_thread_is_left()


def no_engine_thread_is_left() -> bool:
    for thread in threading.enumerate():
        if thread.name == "anaphora-engine":
            thread.join(timeout=PATIENCE_S)
    return "anaphora-engine" not in {thread.name for thread in threading.enumerate()}


def test_text_that_cannot_be_made_fails_one_request_only(
    tiny_tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def use(engine: Engine, model: MemoryModel) -> None:
        process = OutputProcessor.process

        def fail_for_a(processor: OutputProcessor, output: CoreOutput) -> RequestOutput:
            if output.request_id == "a":
                raise ValueError("no such text")
            return process(processor, output)

        monkeypatch.setattr(OutputProcessor, "process", fail_for_a)
        a, b = await asyncio.gather(complete(engine, "a"), complete(engine, "b"), return_exceptions=True)
        assert isinstance(a, EngineStepError)
        assert isinstance(b, RequestOutput)
        assert b.token_ids == continuation(PROMPT, 8)
        await settled(engine)

    serve(tiny_tokenizer, use)


def assert_true(value: bool) -> None:
    assert value


def raise_once() -> Callable[[ForwardBatch], None]:
    failures = [RuntimeError("out of luck")]

    def before(batch: ForwardBatch) -> None:
        if failures:
            raise failures.pop()

    return before
