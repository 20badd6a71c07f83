"""The engine for an event loop in its own process: one client of a core that runs in a thread."""

from anaphora.checkpoints.checkpoint import Checkpoint
from anaphora.engine.config import EngineConfig
from anaphora.engine.engine_client import EngineClient
from anaphora.engine.engine_host import EngineHost
from anaphora.engine.startup import LoadEngine, load_engine
from anaphora.engine.stats import EngineStats


class AsyncEngine(EngineClient):
    """One model served to one event loop. Made by :meth:`start`."""

    def __init__(self, host: EngineHost) -> None:
        """The host's only caller."""
        super().__init__(host.open_port(), host.loaded.tokenizer)
        self._host = host

    @classmethod
    async def start(
        cls, config: EngineConfig, *, checkpoint: Checkpoint | None = None, load: LoadEngine = load_engine
    ) -> "AsyncEngine":
        """Load the model and begin to serve. Errors and parameters as in :meth:`EngineHost.start`."""
        return cls(await EngineHost.start(config, checkpoint=checkpoint, load=load))

    def stats(self) -> EngineStats:
        """See :meth:`fetch_stats`."""
        return self._host.stats()

    async def shutdown(self, *, drain_s: float = 30.0) -> None:
        """Refuse new requests, wait up to ``drain_s`` seconds for the others, abort what is left, end the thread."""
        await super().shutdown(drain_s=drain_s)
        await self._host.shutdown()
