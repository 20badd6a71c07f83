"""``anaphora serve`` with an instant model. Its threads' numbers are told, so that their CPU time can be read.

python -m benchmarks.serving.instant_server MODEL_FOLDER PORT NUM_FRONT_ENDS THREADS_FILE
"""

import asyncio
import json
import sys
import threading
from pathlib import Path

import uvloop
from benchmarks.serving.instant import MODEL_NAME, load_instant

from anaphora.engine import AsyncEngine, EngineConfig, EngineHost
from anaphora.server.app import build_app
from anaphora.server.frontends.asides import Setup
from anaphora.server.frontends.supervisor import Supervisor
from anaphora.server.listener import bind, bind_shared
from anaphora.server.process import ServerProcess, on_stop_signals
from anaphora.server.process_setup import set_up_process, settle_memory
from anaphora.server.settings import ServerSettings

SETTINGS = ServerSettings(served_model_names=(MODEL_NAME,))


def tell_threads(path: Path) -> None:
    """The engine's own thread, and the event loop's."""
    ids = {thread.name: thread.native_id for thread in threading.enumerate()}
    path.write_text(json.dumps({"engine": ids["anaphora-engine"], "loop": threading.main_thread().native_id}))


async def serve_alone(folder: str, port: int, threads: Path) -> None:
    """All in this process."""
    engine = await AsyncEngine.start(EngineConfig(model=folder), load=load_instant)
    tell_threads(threads)
    settle_memory()
    process = ServerProcess(
        build_app(engine, SETTINGS),
        stop_engine=lambda drain_s: engine.shutdown(drain_s=drain_s),
        drain_s=0,
        access_log=False,
    )
    with bind("127.0.0.1", port) as listener:
        await process.serve(sockets=[listener])


async def serve_from_front_ends(folder: str, port: int, count: int, threads: Path) -> None:
    """The engine here, the rest in ``count`` processes."""
    setup = Setup(SETTINGS, model_folder=folder, drain_s=0.0, access_log=False, request_log=None)
    with bind_shared("127.0.0.1", port, count) as listeners:
        supervisor = Supervisor(listeners, setup)
        await supervisor.spawn()
        host = await EngineHost.start(EngineConfig(model=folder), load=load_instant)
        tell_threads(threads)
        settle_memory()
        with on_stop_signals(supervisor.heed):
            supervisor.welcome(host)
            await supervisor.ended()
        await host.shutdown()


def main(folder: str, port: int, count: int, threads: Path) -> None:
    """Serve until told to stop."""
    set_up_process()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if count == 0:
            runner.run(serve_alone(folder, port, threads))
        else:
            runner.run(serve_from_front_ends(folder, port, count, threads))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
