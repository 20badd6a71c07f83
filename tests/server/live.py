"""A real server on a real socket: a tiny random model, its engine and uvicorn, in a thread of the test process."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import httpx
import uvloop

from anaphora.engine import AsyncEngine, EngineConfig
from anaphora.engine.startup import LoadEngine, load_engine
from anaphora.server.app import build_app
from anaphora.server.backend import Backend
from anaphora.server.listener import bind, url_of
from anaphora.server.process import ServerProcess
from anaphora.server.settings import ServerSettings
from tests.patience import LOCAL, PATIENCE_S

MODEL = "demo-model"
Wrap = Callable[[Backend], Backend]
SETTINGS = ServerSettings(served_model_names=(MODEL, "second-name"))


class ThreadedProcess(ServerProcess):
    """Signals go to the main thread, which here is the tests'."""

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class LiveServer:
    """``url`` while it serves; ``backend`` to look behind the socket from the outside (stats only)."""

    def __init__(
        self,
        settings: ServerSettings,
        backend: Backend | None,
        engine: EngineConfig | None,
        wrap: Wrap,
        load: LoadEngine,
    ) -> None:
        self._settings = settings
        self._load = load
        self._wrap = wrap
        self._engine_config = engine
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self.backend: Any = backend
        self.process: ThreadedProcess | None = None
        self.url = ""
        self._thread = threading.Thread(target=self._run, name="live-server")

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        assert self.process is not None
        self.process.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        if self.backend is None:
            assert self._engine_config is not None
            self.backend = await AsyncEngine.start(self._engine_config, load=self._load)
        with bind("127.0.0.1", 0) as listener:
            self.url = url_of(listener)
            app = build_app(self._wrap(self.backend), self._settings)
            self.process = ThreadedProcess(app, stop_engine=self._stop_engine, drain_s=5, access_log=False)
            serving = asyncio.create_task(self.process.serve([listener]))
            while not self.process.started and not serving.done():
                await asyncio.sleep(0.005)
            self._ready.set()
            await serving

    async def _stop_engine(self, drain_s: float) -> None:
        if isinstance(self.backend, AsyncEngine):
            await self.backend.shutdown(drain_s=drain_s)


@contextlib.contextmanager
def serving(
    model: Path | None = None,
    settings: ServerSettings = SETTINGS,
    *,
    backend: Backend | None = None,
    wrap: Wrap = lambda backend: backend,
    load: LoadEngine = load_engine,
    **engine: Any,
) -> Iterator[LiveServer]:
    """A server for the model folder ``model`` (or for ``backend``), stopped at the end; ``engine`` are its options.

    ``wrap`` puts something in front of the engine; ``load`` loads it.
    """
    options = {"device": "cpu", "num_threads": 1, "kv_cache_memory_bytes": 2**22, **engine}
    config = None if model is None else EngineConfig(model=str(model), **options)
    server = LiveServer(settings, backend, config, wrap, load)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def client_of(server: LiveServer, **options: Any) -> httpx.Client:
    """A client with patience; ``options`` are httpx's."""
    return httpx.Client(base_url=server.url, **LOCAL, **options)
