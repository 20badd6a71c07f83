"""One engine core in a thread of its own, and the callers that share it."""

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from anaphora.checkpoints.checkpoint import Checkpoint
from anaphora.engine.config import EngineConfig
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_port import EngineDescription, OnEnd, OnOutputs
from anaphora.engine.core_questions import Question
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.questions import Questions
from anaphora.engine.request import GenerationRequest
from anaphora.engine.startup import LoadedEngine, LoadEngine, load_engine
from anaphora.engine.stats import EngineStats
from anaphora.engine.worker import EngineWorker
from anaphora.errors import EngineDeadError, EngineOverloadedError, RequestError
from anaphora.types import RequestId

logger = logging.getLogger(__name__)


class EngineHost:
    """Serves callers on one event loop, each through a port of its own. All methods are for that loop's thread.

    Each step's outputs cross from the worker's thread to the loop in one call, and from there to each caller in one.
    """

    def __init__(self, config: EngineConfig, loaded: LoadedEngine, worker: EngineWorker) -> None:
        """Listen to a worker that has loaded its engine. Use :meth:`start`."""
        self._config = config
        self.loaded = loaded
        self._worker = worker
        self._loop = asyncio.get_running_loop()
        self._owners: dict[RequestId, LocalPort] = {}
        """From submission to the core's last output, which also comes for aborted requests."""
        self._ports: set[LocalPort] = set()
        self._questions = Questions(worker.submit, self._post)
        self.death: EngineDeadError | None = None
        """Why nothing more is served."""
        worker.listen(
            on_outputs=lambda outputs: self._post(self._deliver, outputs),
            on_end=lambda failure: self._post(self._end, failure),
        )

    @classmethod
    async def start(
        cls, config: EngineConfig, *, checkpoint: Checkpoint | None = None, load: LoadEngine = load_engine
    ) -> "EngineHost":
        """Load the model and wait for callers. ``load`` is replaced in tests only.

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
    def description(self) -> EngineDescription:
        """What callers need to know of the engine."""
        loaded = self.loaded
        budget = loaded.plan.scheduler.max_num_batched_tokens  # which may depend on the GPU
        return EngineDescription(
            config=replace(self._config, max_num_batched_tokens=budget),
            model_name=loaded.model_name,
            vocab_size=loaded.vocab_size,
            max_model_len=loaded.plan.max_model_len,
            is_on_gpu=loaded.plan.is_on_gpu,
            kv_capacity=loaded.plan.kv_capacity,
            device_bytes=loaded.plan.device_bytes,
        )

    def stats(self) -> EngineStats:
        """The picture after the last step; requests that came while a step runs are waiting."""
        stats = self._worker.stats
        return replace(stats, num_waiting=max(0, len(self._owners) - stats.num_running))

    def open_port(self) -> "LocalPort":
        """A new caller's port."""
        port = LocalPort(self)
        self._ports.add(port)
        return port

    def close_port(self, port: "LocalPort") -> None:
        """A caller has gone: its requests are aborted, and nothing more is said to it."""
        self._ports.discard(port)
        for request_id in [name for name, owner in self._owners.items() if owner is port]:
            self.abort(request_id)

    async def shutdown(self) -> None:
        """End the thread after the present step; what is unfinished then stays unfinished, and callers are told."""
        self._worker.stop()
        await asyncio.to_thread(self._worker.join)

    def check_room(self, request_id: RequestId) -> None:
        """See :meth:`CorePort.check_room`."""
        if len(self._owners) >= self._config.max_requests:
            raise EngineOverloadedError(f"{len(self._owners)} requests are being served or wait: try again later")
        if request_id in self._owners:
            raise RequestError(f"request id {request_id!r} is in use: choose another", param="request_id")

    def add(self, request: GenerationRequest, owner: "LocalPort") -> None:
        """See :meth:`CorePort.add`."""
        self.check_room(request.request_id)

        def add(core: EngineCore) -> list[CoreOutput]:
            try:
                core.add(request)
            except RequestError as error:
                return [CoreOutput.failed(request.request_id, error)]
            return []

        self._worker.submit(add)
        self._owners[request.request_id] = owner

    def abort(self, request_id: RequestId) -> None:
        """See :meth:`CorePort.abort`."""
        self._worker.submit(lambda core: core.abort(request_id))

    async def ask(self, question: Question) -> Any:
        """See :meth:`CorePort.ask`."""
        return await self._questions.ask(question.answer)

    def _post(self, callback: Callable[..., object], *args: Any) -> None:
        """From the worker's thread: have the loop call ``callback``."""
        try:
            self._loop.call_soon_threadsafe(callback, *args)
        except RuntimeError:  # the loop was closed without a shutdown: nobody listens any more
            self._worker.stop()

    def _deliver(self, outputs: list[CoreOutput]) -> None:
        shares: dict[LocalPort, list[CoreOutput]] = {}
        for output in outputs:
            owner = self._owners[output.request_id]
            if output.is_last:
                del self._owners[output.request_id]
            shares.setdefault(owner, []).append(output)
        for owner, share in shares.items():
            if owner in self._ports:
                owner.deliver(share)

    def _end(self, failure: BaseException | None) -> None:
        """The worker's thread has ended: nobody may wait for it any longer."""
        if failure is not None:
            logger.error("the engine has stopped", exc_info=failure)
        reason = "it was shut down" if failure is None else str(failure) or repr(failure)
        self.death = EngineDeadError(f"the engine has stopped: {reason}")
        self._owners.clear()
        self._questions.end(self.death)
        for port in list(self._ports):
            port.end(self.death)


class LocalPort:
    """A :class:`CorePort` in the engine's own process."""

    def __init__(self, host: EngineHost) -> None:
        self._host = host
        self._on_outputs: OnOutputs = lambda outputs: None
        self._on_end: OnEnd = lambda death: None
        self.description = host.description

    def listen(self, on_outputs: OnOutputs, on_end: OnEnd) -> None:
        """See :class:`CorePort`."""
        self._on_outputs, self._on_end = on_outputs, on_end
        if self._host.death is not None:
            on_end(self._host.death)

    def check_room(self, request_id: RequestId) -> None:
        """See :class:`CorePort`."""
        self._host.check_room(request_id)

    def add(self, request: GenerationRequest) -> None:
        """See :class:`CorePort`."""
        self._host.add(request, self)

    def abort(self, request_id: RequestId) -> None:
        """See :class:`CorePort`."""
        self._host.abort(request_id)

    async def ask(self, question: Question) -> Any:
        """See :class:`CorePort`."""
        return await self._host.ask(question)

    async def fetch_stats(self) -> EngineStats:
        """See :class:`CorePort`."""
        return self._host.stats()

    def deliver(self, outputs: Sequence[CoreOutput]) -> None:
        """The host's: outputs of this caller's requests."""
        self._on_outputs(outputs)

    def end(self, death: EngineDeadError) -> None:
        """The host's: nothing more will come."""
        self._on_end(death)
