"""The engine for an event loop: requests in, streams of text out, the core in a thread of its own."""

import asyncio
import contextlib
import functools
import logging
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from typing import Any

from anaphora.checkpoints.checkpoint import Checkpoint
from anaphora.engine.cache_operations import CacheOperations
from anaphora.engine.config import EngineConfig, KVCapacity
from anaphora.engine.engine_core import CoreOutput, EngineCore
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import RequestOutput
from anaphora.engine.questions import Questions
from anaphora.engine.request import GenerationRequest, check_request, compact
from anaphora.engine.request_stream import RequestStream
from anaphora.engine.startup import LoadedEngine, LoadEngine, load_engine
from anaphora.engine.stats import EngineStats
from anaphora.engine.worker import EngineWorker
from anaphora.errors import EngineDeadError, EngineOverloadedError, EngineStepError, RequestError
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId

logger = logging.getLogger(__name__)


class AsyncEngine:
    """One model served to one event loop; all methods are for that loop's thread. Made by :meth:`start`.

    Each step's outputs cross from the worker's thread to the loop in one call. Detokenising and the search for stop
    strings happen in the loop, while the next step is computed.
    """

    def __init__(self, config: EngineConfig, loaded: LoadedEngine, worker: EngineWorker) -> None:
        """Listen to a worker that has loaded its engine."""
        self.config = config
        self._loaded = loaded
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._streams: dict[RequestId, RequestStream] = {}
        """From submission to the core's last output, which also comes for aborted requests."""
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self._questions = Questions(worker.submit, self._post)
        self.cache = CacheOperations(self._questions)
        """What the operator asks of the cache."""
        self._is_closing = False
        self._death: EngineDeadError | None = None
        worker.listen(
            on_outputs=lambda outputs: self._post(self._deliver, outputs),
            on_end=lambda failure: self._post(self._end, failure),
        )

    @classmethod
    async def start(
        cls, config: EngineConfig, *, checkpoint: Checkpoint | None = None, load: LoadEngine = load_engine
    ) -> "AsyncEngine":
        """Load the model and begin to serve. ``load`` is replaced in tests only.

        Raises:
            CheckpointError: the model cannot be found, read or understood.
            ConfigError: the settings do not fit the model.
        """
        worker = EngineWorker(functools.partial(load, config, checkpoint))
        try:
            return cls(config, await asyncio.wrap_future(worker.loaded), worker)
        except BaseException:
            worker.stop()
            raise

    @property
    def tokenizer(self) -> Tokenizer:
        """The checkpoint's tokenizer."""
        return self._loaded.tokenizer

    @property
    def model_name(self) -> str:
        """The checkpoint's name."""
        return self._loaded.model_name

    @property
    def max_model_len(self) -> int:
        """Prompt and output of one request together, in tokens."""
        return self._loaded.plan.max_model_len

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU runs the model."""
        return self._loaded.plan.is_on_gpu

    @property
    def kv_capacity(self) -> KVCapacity:
        """Size of the KV cache."""
        return self._loaded.plan.kv_capacity

    @property
    def is_healthy(self) -> bool:
        """Whether new requests are served."""
        return self._death is None and not self._is_closing

    def stats(self) -> EngineStats:
        """The picture after the last step; a request whose last output was seen is counted in it.

        Requests that came while a step runs are waiting.
        """
        stats = self._worker.stats
        return replace(stats, num_waiting=max(0, len(self._streams) - stats.num_running))

    def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        """Check a request now; start it when the first output is asked for. The last output has a ``finish_reason``.

        Closing the generator early, or cancelling the task that waits for it, aborts the request and frees its blocks.

        Raises:
            RequestError: the request can never run.
            EngineOverloadedError: too many requests wait already.
            EngineDeadError: the engine has stopped. Outputs raise it too, and ``EngineStepError`` if the model fails.
        """
        arrived_s = time.monotonic()
        self._check_room(request)
        request = compact(request)
        check_request(request, max_model_len=self.max_model_len, vocab_size=self._loaded.vocab_size)
        return self._generate(request, arrived_s)

    async def abort(self, request_id: RequestId) -> None:
        """End a request with ``finish_reason`` ``abort``; unknown or finished ones are none's concern."""
        if request_id in self._streams:
            self._abort_in_core(request_id)

    async def reset_prefix_cache(self) -> bool:
        """Forget every cached block; ``False`` while blocks are in use, and then nothing was forgotten.

        Raises:
            EngineDeadError: the engine has stopped.
        """
        return await self._questions.ask(EngineCore.reset_prefix_cache)

    async def shutdown(self, *, drain_s: float = 30.0) -> None:
        """Refuse new requests, wait up to ``drain_s`` seconds for the others, abort what is left, end the thread."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self._is_empty.wait()
        for request_id in list(self._streams):
            await self.abort(request_id)
        self._worker.stop()
        await asyncio.to_thread(self._worker.join)

    async def _generate(self, request: GenerationRequest, arrived_s: float) -> AsyncGenerator[RequestOutput, None]:
        stream = self._submit(request, arrived_s)
        try:
            while True:
                output = await stream.take()
                yield output
                if output.finish_reason is not None:
                    return
        finally:
            if not stream.is_closed:
                stream.is_closed = True
                self._abort_in_core(request.request_id)

    def _check_room(self, request: GenerationRequest) -> None:
        if self._death is not None:
            raise self._death
        if self._is_closing:
            raise EngineDeadError("the engine is shutting down and takes no new requests")
        if len(self._streams) >= self.config.max_requests:
            raise EngineOverloadedError(f"{len(self._streams)} requests are being served or wait: try again later")
        if request.request_id in self._streams:
            raise RequestError(f"request id {request.request_id!r} is in use: choose another", param="request_id")

    def _submit(self, request: GenerationRequest, arrived_s: float) -> RequestStream:
        self._check_room(request)  # again: others may have come between the call and the first output asked for

        def add(core: EngineCore) -> list[CoreOutput]:
            try:
                core.add(request)
            except RequestError as error:
                return [CoreOutput(request_id=request.request_id, error=error)]
            return []

        self._worker.submit(add)
        stream = RequestStream(OutputProcessor(request, self.tokenizer, arrived_s=arrived_s))
        self._streams[request.request_id] = stream
        self._is_empty.clear()
        return stream

    def _abort_in_core(self, request_id: RequestId) -> None:
        self._worker.submit(lambda core: core.abort(request_id))

    def _post(self, callback: Callable[..., object], *args: Any) -> None:
        """From the worker's thread: have the loop call ``callback``."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop was closed without a shutdown: nobody listens any more
            self._worker.stop()

    def _deliver(self, outputs: list[CoreOutput]) -> None:
        for output in outputs:
            stream = self._streams[output.request_id]
            if output.is_last:
                self._remove(output.request_id)
            if not stream.is_closed:
                self._pass_on(output, stream)

    def _pass_on(self, output: CoreOutput, stream: RequestStream) -> None:
        if output.error is not None:
            stream.fail(output.error)
            return
        try:
            stream.push(stream.processor.process(output))
        except Exception as error:  # one request's text must not cost the others theirs
            logger.exception("the text of request %s cannot be made", output.request_id)
            stream.fail(EngineStepError(f"the generated tokens cannot be turned into text ({error!r})"))
        if stream.is_closed and not output.is_last:
            self._abort_in_core(output.request_id)

    def _remove(self, request_id: RequestId) -> None:
        del self._streams[request_id]
        if not self._streams:
            self._is_empty.set()

    def _end(self, failure: BaseException | None) -> None:
        """The worker's thread has ended: nobody may wait for it any longer."""
        if failure is not None:
            logger.error("the engine has stopped", exc_info=failure)
        reason = "it was shut down" if failure is None else str(failure) or repr(failure)
        self._death = EngineDeadError(f"the engine has stopped: {reason}")
        for stream in self._streams.values():
            if not stream.is_closed:
                stream.fail(self._death)
        self._streams.clear()
        self._is_empty.set()
        self._questions.end(self._death)
