"""Questions of front ends to each other, passed on by the engine's process."""

import asyncio
from collections.abc import Callable

from anaphora.server.peers import Topic

ANSWER_LIMIT_S = 5.0
"""A front end that has not answered by then (it may be reading a very long text) is counted with its last answer."""
KEPT_TOPICS = frozenset((Topic.LATENCIES,))
"""What front ends say of these stands for them when they are late or gone: counts never fall."""

SendQuery = Callable[[int, Topic, str], None]


class Relay:
    """Asks every front end, and keeps what must not be lost when one of them goes.

    What a front end that crashed has counted since its last answer is lost.
    """

    def __init__(self) -> None:
        self._members: dict[int, SendQuery] = {}
        self._kept: dict[tuple[int, Topic], bytes] = {}
        """Last answers, by member; of members that have gone, too."""
        self._waiting: dict[int, dict[int, asyncio.Future[bytes]]] = {}
        self._num_asked = 0

    def join(self, member: int, send_query: SendQuery) -> None:
        """A front end that can be asked. Its number is never used again."""
        self._members[member] = send_query

    def leave(self, member: int) -> None:
        """It is gone; whoever waits for it waits no longer."""
        self._members.pop(member, None)
        for answers in self._waiting.values():
            if member in answers and not answers[member].done():
                answers[member].cancel()

    def take(self, member: int, number: int, content: bytes) -> None:
        """A front end's answer."""
        future = self._waiting.get(number, {}).get(member)
        if future is not None and not future.done():
            future.set_result(content)

    async def gather(self, topic: Topic, argument: str) -> list[bytes]:
        """What all front ends say, and what of those that have gone was kept."""
        self._num_asked += 1
        number, loop = self._num_asked, asyncio.get_running_loop()
        futures = {member: loop.create_future() for member in self._members}
        self._waiting[number] = futures
        try:
            for member in futures:
                self._members[member](number, topic, argument)
            if futures:
                await asyncio.wait(futures.values(), timeout=ANSWER_LIMIT_S)
        finally:
            del self._waiting[number]
        parts = {member: f.result() for member, f in futures.items() if f.done() and not f.cancelled()}
        if topic not in KEPT_TOPICS:
            return list(parts.values())
        self._kept |= {(member, topic): part for member, part in parts.items()}
        return [part for (_, kept_topic), part in self._kept.items() if kept_topic == topic]
