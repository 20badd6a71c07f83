"""The thread that owns the engine core: takes commands, steps while there is work, sleeps while there is none."""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.startup import LoadedEngine
from anaphora.engine.stats import EngineStats

Command = Callable[[EngineCore], list[CoreOutput]]
"""Runs in the worker's thread between two steps; what it returns is passed on like a step's outputs."""


class EngineWorker:
    """One daemon thread, one engine core. Commands run in the order in which they were submitted."""

    def __init__(self, load: Callable[[], LoadedEngine]) -> None:
        """``load`` runs in the thread: the thread that makes the tensors computes with them."""
        self.loaded: Future[LoadedEngine] = Future()
        self._load = load
        self._on_outputs: Callable[[list[CoreOutput]], None] | None = None
        self._on_end: Callable[[BaseException | None], None] | None = None
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._run, name="anaphora-engine", daemon=True)
        self._thread.start()

    @property
    def stats(self) -> EngineStats:
        """The picture after the last step or command."""
        return self._stats

    def listen(
        self, *, on_outputs: Callable[[list[CoreOutput]], None], on_end: Callable[[BaseException | None], None]
    ) -> None:
        """Say who takes outputs, before the first command; both are called in the worker's thread.

        ``on_end`` comes once and last: with ``None`` after :meth:`stop`, else with what went wrong.
        """
        self._on_outputs, self._on_end = on_outputs, on_end

    def submit(self, command: Command) -> None:
        """Have ``command`` run before the next step; from any thread, returns at once."""
        self._inbox.put(command)

    def stop(self) -> None:
        """End the thread after the present step; what is unfinished then stays unfinished."""
        self._inbox.put(None)

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    def _run(self) -> None:
        self.loaded.set_running_or_notify_cancel()  # from now on a caller that gives up cannot cancel it
        try:
            loaded = self._load()
        except BaseException as error:
            self.loaded.set_exception(error)
            return
        self._stats = loaded.core.stats()
        self.loaded.set_result(loaded)
        failure: BaseException | None = None
        try:
            self._serve(loaded.core)
        except BaseException as error:  # whatever it is, those who wait must hear of it
            failure = error
        if self._on_end is not None:
            self._on_end(failure)

    def _serve(self, core: EngineCore) -> None:
        is_idle = True
        while self._obey(core, wait=is_idle):
            outputs = core.step()
            is_idle = outputs is None
            self._publish(core, outputs)

    def _obey(self, core: EngineCore, *, wait: bool) -> bool:
        """Run the commands that have come, after sleeping for the first one if ``wait``; ``False``: stop.

        Most of them add a request and have nothing to tell: many that come at once take one picture.
        """
        is_shown = True
        while wait or not self._inbox.empty():
            command = self._inbox.get()
            if command is None:
                return False
            outputs = command(core)
            is_shown = bool(outputs)
            if outputs:
                self._publish(core, outputs)
            wait = False
        if not is_shown:
            self._publish(core, None)
        return True

    def _publish(self, core: EngineCore, outputs: list[CoreOutput] | None) -> None:
        # the picture comes first: whoever has seen a request's last output finds it counted
        self._stats = core.stats()
        if outputs:
            assert self._on_outputs is not None
            self._on_outputs(outputs)
