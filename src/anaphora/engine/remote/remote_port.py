"""A caller's end of a channel to an engine in another process: a :class:`CorePort` whose calls are messages."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from anaphora.engine.core_port import EngineDescription, OnEnd, OnOutputs
from anaphora.engine.core_questions import Question
from anaphora.engine.remote.failures import error_of
from anaphora.engine.remote.frames import FrameChannel
from anaphora.engine.remote.messages import (
    Abort,
    Add,
    Answer,
    Aside,
    Ask,
    Outputs,
    Refusal,
    Welcome,
    decode_answer,
    decode_to_caller,
    encode,
)
from anaphora.engine.request import GenerationRequest
from anaphora.engine.stats import EngineStats
from anaphora.errors import EngineDeadError
from anaphora.types import RequestId


class RemotePort:
    """Made by :meth:`connect`; :meth:`welcomed` must have returned before anything else is called."""

    def __init__(self, on_aside: Callable[[bytes], None]) -> None:
        """``on_aside`` takes what is not the engine's concern."""
        self._on_aside = on_aside
        self._channel: FrameChannel | None = None
        self._welcome: asyncio.Future[EngineDescription] = asyncio.get_running_loop().create_future()
        self._on_outputs: OnOutputs = lambda outputs: None
        self._on_end: OnEnd = lambda death: None
        self._death: EngineDeadError | None = None
        self._questions: dict[int, tuple[Question | None, asyncio.Future[Any]]] = {}
        self._num_asked = 0
        self.is_lost = asyncio.Event()
        """Set once the engine's process has gone, or has closed the channel."""

    @classmethod
    async def connect(cls, end: socket.socket, on_aside: Callable[[bytes], None]) -> "RemotePort":
        """Speak on a connected socket, which belongs to the port from now on."""
        port = cls(on_aside)
        port._channel = await FrameChannel.open(end, port._take, port._lose)
        return port

    async def welcomed(self) -> EngineDescription:
        """Wait until the engine is loaded.

        Raises:
            EngineDeadError: it never will be.
        """
        return await asyncio.shield(self._welcome)

    @property
    def description(self) -> EngineDescription:
        """See :class:`CorePort`."""
        return self._welcome.result()

    def listen(self, on_outputs: OnOutputs, on_end: OnEnd) -> None:
        """See :class:`CorePort`."""
        self._on_outputs, self._on_end = on_outputs, on_end
        if self._death is not None:
            on_end(self._death)

    def check_room(self, request_id: RequestId) -> None:
        """See :class:`CorePort`. How many requests all callers have, only the engine knows: it refuses them itself."""

    def add(self, request: GenerationRequest) -> None:
        """See :class:`CorePort`."""
        self._send(Add.of(request))

    def abort(self, request_id: RequestId) -> None:
        """See :class:`CorePort`."""
        self._send(Abort(request_id))

    async def ask(self, question: Question) -> Any:
        """See :class:`CorePort`."""
        return await self._ask(question)

    async def fetch_stats(self) -> EngineStats:
        """See :class:`CorePort`."""
        stats: EngineStats = await self._ask(None)
        return stats

    def send_aside(self, payload: bytes) -> None:
        """Tell the engine's process something that is not the engine's concern."""
        self._send(Aside(payload))

    def close(self) -> None:
        """Say goodbye: what is still running is aborted."""
        if self._channel is not None:
            self._channel.close()

    async def _ask(self, question: Question | None) -> Any:
        if self._death is not None:
            raise self._death
        self._num_asked += 1
        number = self._num_asked
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._questions[number] = question, future
        self._send(Ask(number, question))
        try:
            return await future
        finally:
            del self._questions[number]

    def _send(self, message: object) -> None:
        if self._channel is not None:
            self._channel.send(encode(message))

    def _take(self, data: memoryview) -> None:
        message = decode_to_caller(data)
        if isinstance(message, Outputs):
            self._on_outputs([output.core_output() for output in message.outputs])
        elif isinstance(message, Answer | Refusal):
            self._settle(message)
        elif isinstance(message, Aside):
            self._on_aside(message.payload)
        elif isinstance(message, Welcome):
            self._welcome.set_result(message.description)
        else:
            self._end(EngineDeadError(message.reason))

    def _settle(self, message: Answer | Refusal) -> None:
        question, future = self._questions.get(message.number, (None, None))
        if future is None or future.done():  # whoever asked has gone
            return
        if isinstance(message, Answer):
            future.set_result(decode_answer(question, message.content))
        else:
            future.set_exception(error_of(message.failure))

    def _lose(self) -> None:
        self._channel = None
        self._end(EngineDeadError("the engine has stopped: its process has gone"))
        self.is_lost.set()

    def _end(self, death: EngineDeadError) -> None:
        if self._death is not None:
            return
        self._death = death
        if not self._welcome.done():
            self._welcome.set_exception(death)
            self._welcome.exception()  # whoever waits gets it; if nobody does, that is no fault
        for _, future in self._questions.values():
            if not future.done():
                future.set_exception(death)
        self._on_end(death)
