"""A front end's side of what is told beside requests: its setup, the order to stop, and questions to its peers."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from anaphora.errors import EngineDeadError
from anaphora.server.frontends.asides import (
    Gather,
    Gathered,
    Listening,
    Part,
    Query,
    Setup,
    Stop,
    decode_to_front_end,
    encode_aside,
)
from anaphora.server.peers import AnswerPeer, Topic


class Control:
    """What the engine's process tells this front end, and what it is told. It is the front end's :class:`Peers`."""

    def __init__(self) -> None:
        self.send: Callable[[bytes], None] = lambda payload: None
        """How to reach the engine's process; set once the channel is there."""
        self.setup: asyncio.Future[Setup] = asyncio.get_running_loop().create_future()
        self.on_stop: Callable[[bool], None] = lambda is_urgent: None
        """Called with every order to stop, and at once if one came before this was set through :meth:`heed_stop`."""
        self._orders: list[bool] = []
        self._answers: dict[Topic, AnswerPeer] = {}
        self._gathering: dict[int, asyncio.Future[list[bytes]]] = {}
        self._num_asked = 0

    def heed_stop(self, on_stop: Callable[[bool], None]) -> None:
        """Say what an order to stop does; its argument is whether it is urgent."""
        self.on_stop = on_stop
        for is_urgent in self._orders:
            on_stop(is_urgent)

    def tell_listening(self) -> None:
        """Say that this front end serves."""
        self.send(encode_aside(Listening()))

    def answer(self, topic: Topic, answer: AnswerPeer) -> None:
        """See :class:`Peers`."""
        self._answers[topic] = answer

    async def gather(self, topic: Topic, argument: str = "") -> Sequence[bytes]:
        """See :class:`Peers`.

        Raises:
            EngineDeadError: the engine's process has gone.
        """
        self._num_asked += 1
        number = self._num_asked
        future: asyncio.Future[list[bytes]] = asyncio.get_running_loop().create_future()
        self._gathering[number] = future
        self.send(encode_aside(Gather(number, topic, argument)))
        try:
            return await future
        finally:
            del self._gathering[number]

    def take(self, payload: bytes) -> None:
        """Something was told."""
        message = decode_to_front_end(payload)
        if isinstance(message, Setup):
            self.setup.set_result(message)
        elif isinstance(message, Stop):
            self._orders.append(message.is_urgent)
            self.on_stop(message.is_urgent)
        elif isinstance(message, Query):
            answer = self._answers.get(message.topic)
            self.send(encode_aside(Part(message.number, b"" if answer is None else answer(message.argument))))
        else:
            self._settle(message)

    def lose(self) -> None:
        """The engine's process has gone: nobody may wait for it."""
        death = EngineDeadError("the engine has stopped: its process has gone")
        waiting: list[asyncio.Future[Any]] = [self.setup, *self._gathering.values()]
        for future in waiting:
            if not future.done():
                future.set_exception(death)

    def _settle(self, message: Gathered) -> None:
        future = self._gathering.get(message.number)
        if future is not None and not future.done():
            future.set_result(message.parts)
