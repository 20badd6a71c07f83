"""One HTTP request is one or many engine requests: here they run, and their outputs come back as one stream."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from anaphora.engine import EngineUsage, GenerationRequest, PositionLogprobs, RequestOutput
from anaphora.errors import EngineDeadError
from anaphora.protocol.answers import FinishReason
from anaphora.server.backend import Backend
from anaphora.server.latency import LatencyHistograms

Outputs = AsyncGenerator[tuple[int, RequestOutput], None]


@dataclass(frozen=True, slots=True)
class Job:
    """The engine requests of one HTTP request: prompt by prompt, ``num_samples`` continuations each."""

    answer_id: str
    requests: tuple[GenerationRequest, ...]
    num_samples: int


@dataclass(slots=True)
class Choice:
    """One continuation, gathered from its outputs."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[PositionLogprobs] = field(default_factory=list)
    prompt_logprobs: tuple[PositionLogprobs | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | str | None = None
    usage: EngineUsage | None = None

    def take(self, output: RequestOutput) -> None:
        """Add an output of this continuation."""
        self.text += output.text
        self.token_ids += output.token_ids
        self.logprobs += output.logprobs or ()
        self.prompt_logprobs = output.prompt_logprobs or self.prompt_logprobs
        self.finish_reason = finish_reason_of(output)
        self.stop_reason = output.stop_reason
        self.usage = output.usage


def finish_reason_of(output: RequestOutput) -> FinishReason | None:
    """OpenAI's word for it.

    Raises:
        EngineDeadError: the engine ended the request early, which is no answer.
    """
    if output.finish_reason == "abort":
        raise EngineDeadError("the request was ended early, as the server is stopping: send it again later")
    return output.finish_reason


def run(backend: Backend, requests: Sequence[GenerationRequest], latencies: LatencyHistograms) -> Outputs:
    """Outputs of all requests with the index of theirs, as they come. Closing it early aborts all."""
    if len(requests) == 1:
        return _run_one(backend, requests[0], latencies)
    return _run_many(backend, requests, latencies)


async def _run_one(backend: Backend, request: GenerationRequest, latencies: LatencyHistograms) -> Outputs:
    async with aclosing(latencies.observe(backend.generate(request))) as outputs:
        async for output in outputs:
            yield 0, output


async def _run_many(backend: Backend, requests: Sequence[GenerationRequest], latencies: LatencyHistograms) -> Outputs:
    """A task per request feeds one queue; ``None`` in it is the end of one of them."""
    queue: asyncio.Queue[tuple[int, RequestOutput] | Exception | None] = asyncio.Queue()

    async def feed(index: int, request: GenerationRequest) -> None:
        try:
            async with aclosing(latencies.observe(backend.generate(request))) as outputs:
                async for output in outputs:
                    queue.put_nowait((index, output))
        except Exception as error:
            queue.put_nowait(error)
        else:
            queue.put_nowait(None)

    tasks = [asyncio.create_task(feed(index, request)) for index, request in enumerate(requests)]
    num_running = len(tasks)
    try:
        while num_running:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            if item is None:
                num_running -= 1
            else:
                yield item
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
