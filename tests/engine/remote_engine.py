"""An engine whose client is at the other end of a channel, with both ends in one process."""

import asyncio
import socket
from typing import Any

from anaphora.engine import EngineClient, EngineConfig, EngineHost, EngineStats
from anaphora.engine.remote.remote_caller import RemoteCaller
from anaphora.engine.remote.remote_port import RemotePort


class RemoteEngine(EngineClient):
    """As ``AsyncEngine`` to the tests: all that it asks of the engine but ``stats`` goes through a socket."""

    def __init__(self, host: EngineHost, caller: RemoteCaller, port: RemotePort, caller_is_lost: asyncio.Event) -> None:
        super().__init__(port, host.loaded.tokenizer)
        self.host = host
        self.caller = caller
        self.port = port
        self.caller_is_lost = caller_is_lost

    @classmethod
    async def start(cls, config: EngineConfig, *, load: Any) -> "RemoteEngine":
        """Host and client, connected."""
        host = await EngineHost.start(config, load=load)
        ours, theirs = socket.socketpair()
        is_lost = asyncio.Event()
        caller = RemoteCaller(on_aside=lambda payload: None, on_lost=is_lost.set)
        await caller.connect(ours)
        port = await RemotePort.connect(theirs, on_aside=lambda payload: None)
        caller.welcome(host)
        assert await port.welcomed() == host.description
        return cls(host, caller, port, is_lost)

    def stats(self) -> EngineStats:
        """The host's own picture."""
        return self.host.stats()

    async def shutdown(self, *, drain_s: float = 30.0) -> None:
        """As ``AsyncEngine``'s."""
        await super().shutdown(drain_s=drain_s)
        if drain_s:
            await self.host.shutdown()
        else:  # what was aborted is told before the thread ends
            await self.fetch_stats()
            await self.host.shutdown()
        await asyncio.sleep(0)
        while not self.has_died.is_set():
            await asyncio.sleep(0.001)
        self.port.close()
        await self.caller_is_lost.wait()
