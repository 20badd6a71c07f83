"""Questions of the event loop to the engine core: answered in the worker's thread, between two steps."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.worker import Command
from anaphora.errors import EngineDeadError

T = TypeVar("T")


class Questions:
    """Those that wait for their answers. All methods are for the loop's thread."""

    def __init__(self, submit: Callable[[Command], object], post: Callable[..., object]) -> None:
        """``submit`` has a command run by the worker; ``post`` has a function called by the loop, from any thread."""
        self._submit = submit
        self._post = post
        self._waiting: set[asyncio.Future[Any]] = set()
        self._death: EngineDeadError | None = None

    async def ask(self, question: Callable[[EngineCore], T]) -> T:
        """What ``question`` returns or raises; it must leave the requests alone.

        Raises:
            EngineDeadError: the engine has stopped.
        """
        if self._death is not None:
            raise self._death
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def answer(core: EngineCore) -> list[CoreOutput]:
            try:
                self._post(_settle, future, question(core), None)
            except Exception as error:  # the asker's, and not the end of the worker
                self._post(_settle, future, None, error)
            return []

        self._waiting.add(future)
        self._submit(answer)
        try:
            return await future
        finally:
            self._waiting.discard(future)

    def end(self, death: EngineDeadError) -> None:
        """Nobody answers any more."""
        self._death = death
        for future in self._waiting:
            _settle(future, None, death)


def _settle(future: asyncio.Future[Any], result: object, error: Exception | None) -> None:
    if future.done():  # whoever asked has gone
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
