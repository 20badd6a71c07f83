"""Many requests at once over warm connections to one address."""

import asyncio

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.answers import Answer, AnswerReader
from anaphora.lab.clock import Clock
from anaphora.lab.http import HttpClient
from anaphora.lab.load.jobs import Address
from anaphora.lab.targets.base import Reply

_SPARE_CONNECTIONS = 2


class Streams:
    """Sends bodies that were encoded before, each on a connection of its own while it lasts."""

    def __init__(self, address: Address, path: str, *, clock: Clock) -> None:
        base = BaseUrl.parse(address.api_url)
        self._client = HttpClient(base, headers=address.headers, clock=clock)
        self._path = f"{base.api}{path}"
        self._timeout_s = address.timeout_s
        self._clock = clock
        self._opening: set[asyncio.Task[None]] = set()

    async def open(self, num_connections: int) -> None:
        """Have so many connections standing. Raises :class:`TargetError`."""
        for _ in range(num_connections):
            await self._client.open()

    def keep_spare(self) -> None:
        """Have a connection or two in reserve, so that no request of a rising load waits for a handshake."""
        if self._client.num_idle + len(self._opening) < _SPARE_CONNECTIONS:
            task = asyncio.create_task(self._open_quietly())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def ask(self, body: bytes) -> Reply:
        """One request and its answer; what went wrong is the answer's ``error``."""
        began_ns = self._clock()
        reader = AnswerReader()
        try:
            exchange = await self._client.exchange(
                "POST", self._path, body=body, sink=reader, timeout_s=self._timeout_s
            )
        except TargetError as error:
            return Reply(began_ns, None, self._clock(), False, Answer(error=str(error)))
        answer = reader.finish(complete=exchange.complete)
        return Reply(exchange.sent_ns, exchange.first_byte_ns, exchange.end_ns, exchange.connection_reused, answer)

    async def close(self) -> None:
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        await self._client.close()

    async def _open_quietly(self) -> None:
        try:
            await self._client.open()
        except TargetError:
            return  # the request that needs the connection will say it
