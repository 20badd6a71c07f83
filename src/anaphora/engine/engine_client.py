"""An engine as an event loop uses it: requests in, text out. No torch: the core may be in another process."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping, Sequence

from anaphora.engine.cache_operations import CacheOperations
from anaphora.engine.config import EngineConfig
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_port import CorePort
from anaphora.engine.core_questions import ResetPrefixCache
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import RequestOutput
from anaphora.engine.plan import KVCapacity
from anaphora.engine.request import GenerationRequest, check_request, compact
from anaphora.engine.request_stream import RequestStream
from anaphora.engine.stats import EngineStats
from anaphora.errors import EngineDeadError, EngineStepError, RequestError
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId

logger = logging.getLogger(__name__)


class EngineClient:
    """One caller of an engine core; all methods are for one loop's thread.

    Detokenising and the search for stop strings happen here, while the next step is computed.
    """

    def __init__(self, port: CorePort, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        """The checkpoint's tokenizer."""
        self._port = port
        self._description = port.description
        self._streams: dict[RequestId, RequestStream] = {}
        """From submission to the core's last output, which also comes for aborted requests."""
        self._is_empty = asyncio.Event()
        self._is_empty.set()
        self.cache = CacheOperations(port.ask)
        """What the operator asks of the cache."""
        self._is_closing = False
        self._death: EngineDeadError | None = None
        self.has_died = asyncio.Event()
        """Set once the engine serves nothing more."""
        port.listen(self._deliver, self._end)

    @property
    def config(self) -> EngineConfig:
        """The engine's settings."""
        return self._description.config

    @property
    def model_name(self) -> str:
        """The checkpoint's name."""
        return self._description.model_name

    @property
    def max_model_len(self) -> int:
        """Prompt and output of one request together, in tokens."""
        return self._description.max_model_len

    @property
    def is_on_gpu(self) -> bool:
        """Whether a GPU runs the model."""
        return self._description.is_on_gpu

    @property
    def kv_capacity(self) -> KVCapacity:
        """Size of the KV cache."""
        return self._description.kv_capacity

    @property
    def device_bytes(self) -> Mapping[str, int]:
        """What is held of a GPU's memory, by use; empty on a CPU."""
        return self._description.device_bytes

    @property
    def is_healthy(self) -> bool:
        """Whether new requests are served."""
        return self._death is None and not self._is_closing

    async def fetch_stats(self) -> EngineStats:
        """The picture after the last step; a request whose last output was seen is counted in it.

        Raises:
            EngineDeadError: the engine is in another process, and cannot be reached.
        """
        return await self._port.fetch_stats()

    def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        """Check a request now; start it when the first output is asked for. The last output has a ``finish_reason``.

        Closing the generator early, or cancelling the task that waits for it, aborts the request and frees its blocks.

        Raises:
            RequestError: the request can never run.
            EngineOverloadedError: too many requests wait already. Outputs raise it too.
            EngineDeadError: the engine has stopped. Outputs raise it too, and ``EngineStepError`` if the model fails.
        """
        arrived_s = time.monotonic()
        self._check_room(request)
        request = compact(request)
        check_request(request, max_model_len=self.max_model_len, vocab_size=self._description.vocab_size)
        return self._generate(request, arrived_s)

    async def abort(self, request_id: RequestId) -> None:
        """End a request with ``finish_reason`` ``abort``; unknown or finished ones are none's concern."""
        if request_id in self._streams:
            self._port.abort(request_id)

    async def reset_prefix_cache(self) -> bool:
        """Forget every cached block; ``False`` while blocks are in use, and then nothing was forgotten.

        Raises:
            EngineDeadError: the engine has stopped.
        """
        was_reset: bool = await self._port.ask(ResetPrefixCache())
        return was_reset

    async def shutdown(self, *, drain_s: float = 30.0) -> None:
        """Refuse new requests, wait up to ``drain_s`` seconds for the others, abort what is left."""
        self._is_closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await self._is_empty.wait()
        for request_id in list(self._streams):
            await self.abort(request_id)

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
                self._port.abort(request.request_id)

    def _check_room(self, request: GenerationRequest) -> None:
        if self._death is not None:
            raise self._death
        if self._is_closing:
            raise EngineDeadError("the engine is shutting down and takes no new requests")
        if request.request_id in self._streams:
            raise RequestError(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        self._port.check_room(request.request_id)

    def _submit(self, request: GenerationRequest, arrived_s: float) -> RequestStream:
        self._check_room(request)  # again: others may have come between the call and the first output asked for
        self._port.add(request)
        stream = RequestStream(OutputProcessor(request, self.tokenizer, arrived_s=arrived_s))
        self._streams[request.request_id] = stream
        self._is_empty.clear()
        return stream

    def _deliver(self, outputs: Sequence[CoreOutput]) -> None:
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
            self._port.abort(output.request_id)

    def _remove(self, request_id: RequestId) -> None:
        del self._streams[request_id]
        if not self._streams:
            self._is_empty.set()

    def _end(self, death: EngineDeadError) -> None:
        """Nobody may wait for the engine any longer."""
        self._death = death
        for stream in self._streams.values():
            if not stream.is_closed:
                stream.fail(death)
        self._streams.clear()
        self._is_empty.set()
        self.has_died.set()
