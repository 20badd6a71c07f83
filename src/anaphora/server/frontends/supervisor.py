"""Front-end processes from their start to their end: as many as asked for, replaced when one crashes."""

import asyncio
import logging
import signal
import socket
from collections.abc import Coroutine, Sequence
from typing import Any

from anaphora.engine import EngineHost
from anaphora.server.frontends.asides import FromFrontEnd, Gather, Gathered, Listening, Part, Query, Setup, Stop
from anaphora.server.frontends.front_end import FrontEnd
from anaphora.server.frontends.relay import Relay
from anaphora.server.process import GRACE_S, log_ready

_log = logging.getLogger(__name__)


class Supervisor:
    """One front end for each of ``listeners``. All methods are for the engine's loop.

    A front end that crashes costs its requests and is replaced; the connections that wait at its socket are served by
    the new one. One that ends before it has ever served is no accident: then all stop.
    """

    def __init__(self, listeners: Sequence[socket.socket], setup: Setup) -> None:
        self._listeners = listeners
        self._setup = setup
        self._relay = Relay()
        self._front_ends: dict[int, FrontEnd] = {}
        self._num_spawned = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._host: EngineHost | None = None
        self._is_stopping = False
        self._is_ready = False
        self.has_failed = False
        """Whether it stopped although nobody asked for it."""

    async def spawn(self) -> None:
        """Start the processes; they prepare themselves while the engine is loaded."""
        for listener in self._listeners:
            await self._spawn_one(listener)

    def heed(self, sig: signal.Signals) -> None:
        """Stop; a second Ctrl-C does not wait."""
        self.stop(is_urgent=self._is_stopping and sig == signal.SIGINT)

    def welcome(self, host: EngineHost) -> None:
        """The engine is loaded: the front ends may listen."""
        self._host = host
        host.open_port().listen(lambda outputs: None, lambda death: self._engine_ended())
        for front_end in self._front_ends.values():
            front_end.welcome(host)

    def stop(self, *, is_urgent: bool = False) -> None:
        """Let the running requests end; ``is_urgent``: end them now."""
        order = Stop(is_urgent=is_urgent)
        if not self._is_stopping:
            self._is_stopping = True
            self._keep(self._kill_late())
        for front_end in self._front_ends.values():
            front_end.tell(order)

    async def ended(self) -> None:
        """Wait until no front end is left."""
        while self._front_ends:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in self._tasks:
            task.cancel()

    def kill(self) -> None:
        """End all of them now."""
        self._is_stopping = True
        for front_end in self._front_ends.values():
            front_end.kill()

    async def _spawn_one(self, listener: socket.socket) -> None:
        self._num_spawned += 1
        front_end = await FrontEnd.spawn(self._num_spawned, listener, self._take)
        self._front_ends[front_end.number] = front_end
        front_end.tell(self._setup)
        if self._host is not None:
            front_end.welcome(self._host)
        if self._is_stopping:
            front_end.tell(Stop(is_urgent=False))
        self._keep(self._watch(front_end, listener))

    async def _watch(self, front_end: FrontEnd, listener: socket.socket) -> None:
        how = await front_end.ended()
        self._relay.leave(front_end.number)
        if not self._is_stopping and front_end.has_served:
            _log.warning(
                "front end %d ended %s: its requests are aborted, and a new one takes its place",
                front_end.process_id,
                how,
            )
            await self._spawn_one(listener)
        elif not self._is_stopping:
            _log.error("front end %d ended %s before it served: the server stops", front_end.process_id, how)
            self._fail()
        del self._front_ends[front_end.number]

    async def _kill_late(self) -> None:
        await asyncio.sleep(self._setup.drain_s + 2 * GRACE_S)
        self.kill()

    def _engine_ended(self) -> None:
        if not self._is_stopping:
            self._fail()

    def _fail(self) -> None:
        self.has_failed = True
        self.stop()

    def _take(self, front_end: FrontEnd, message: FromFrontEnd) -> None:
        if isinstance(message, Listening):
            self._note_listening(front_end)
        elif isinstance(message, Part):
            self._relay.take(front_end.number, message.number, message.content)
        else:
            self._keep(self._gather(front_end, message))

    def _note_listening(self, front_end: FrontEnd) -> None:
        front_end.has_served = True
        self._relay.join(
            front_end.number, lambda number, topic, argument: front_end.tell(Query(number, topic, argument))
        )
        if not self._is_ready and all(other.has_served for other in self._front_ends.values()):
            self._is_ready = True
            log_ready(self._listeners[:1])

    async def _gather(self, front_end: FrontEnd, message: Gather) -> None:
        front_end.tell(Gathered(message.number, await self._relay.gather(message.topic, message.argument)))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
