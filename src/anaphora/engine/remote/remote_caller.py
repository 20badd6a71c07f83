"""The engine's end of a channel: what a caller in another process asks is done here in its name."""

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import msgspec

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_questions import Question
from anaphora.engine.engine_host import EngineHost, LocalPort
from anaphora.engine.remote.failures import failure_of
from anaphora.engine.remote.frames import FrameChannel
from anaphora.engine.remote.messages import (
    Abort,
    Add,
    Answer,
    Aside,
    Ask,
    End,
    Output,
    Outputs,
    Refusal,
    Welcome,
    decode_to_engine,
    encode,
)
from anaphora.errors import AnaphoraError, EngineDeadError

if TYPE_CHECKING:
    from anaphora.types import RequestId

logger = logging.getLogger(__name__)


class RemoteCaller:
    """One caller. It may be connected before the engine is loaded; requests come once it was welcomed.

    When the channel is lost, the caller's requests are aborted.
    """

    def __init__(self, on_aside: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        """Who takes what is not the engine's concern, and who hears, once, that the caller has gone."""
        self._on_aside = on_aside
        self._on_lost = on_lost
        self._channel: FrameChannel | None = None
        self._host: EngineHost | None = None
        self._port: LocalPort | None = None
        self._admitted: set[RequestId] = set()
        """Requests whose ledger was sent."""
        self._answering: set[asyncio.Task[None]] = set()

    async def connect(self, end: socket.socket) -> None:
        """Listen to the caller at the other end of ``end``."""
        self._channel = await FrameChannel.open(end, self._take, self._lose)

    def welcome(self, host: EngineHost) -> None:
        """The engine is loaded: from now on the caller is served."""
        if self._channel is None:
            return
        self._host, self._port = host, host.open_port()
        self._port.listen(self._deliver, self._end)
        self._send(Welcome(host.description))

    def send_aside(self, payload: bytes) -> None:
        """Tell the caller something that is not the engine's concern."""
        self._send(Aside(payload))

    def _send(self, message: object) -> None:
        if self._channel is not None:
            self._channel.send(encode(message))

    def _take(self, data: memoryview) -> None:
        message = decode_to_engine(data)
        if isinstance(message, Aside):
            self._on_aside(message.payload)
        elif self._port is not None:
            self._obey(message, self._port)

    def _obey(self, message: Add | Abort | Ask, port: LocalPort) -> None:
        if isinstance(message, Add):
            try:
                port.add(message.request())
            except AnaphoraError as error:
                self._deliver([CoreOutput.failed(message.request_id, error)])
        elif isinstance(message, Abort):
            port.abort(message.request_id)
        else:
            task = asyncio.ensure_future(self._answer(message.number, message.question, port))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

    async def _answer(self, number: int, question: Question | None, port: LocalPort) -> None:
        try:
            answer = await (port.fetch_stats() if question is None else port.ask(question))
        except Exception as error:
            if not isinstance(error, AnaphoraError):
                logger.exception("a question to the engine failed")
            self._send(Refusal(number, failure_of(error)))
        else:
            self._send(Answer(number, msgspec.Raw(encode(answer))))

    def _deliver(self, outputs: Sequence[CoreOutput]) -> None:
        self._send(Outputs([self._output(output) for output in outputs]))

    def _output(self, output: CoreOutput) -> Output:
        request_id = output.request_id
        is_news = output.ledger is not None and request_id not in self._admitted
        if is_news:
            self._admitted.add(request_id)
        if output.is_last:
            self._admitted.discard(request_id)
        return Output.of(output, with_ledger=is_news)

    def _end(self, death: EngineDeadError) -> None:
        self._send(End(str(death)))

    def _lose(self) -> None:
        self._channel = None
        if self._host is not None and self._port is not None:
            self._host.close_port(self._port)
            self._port = None
        self._on_lost()
