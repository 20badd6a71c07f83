"""How late the client's own event loop ran: a stamp taken in it can be late by as much."""

import asyncio
import contextlib
from types import TracebackType
from typing import Self

from anaphora.lab.clock import Clock

_PERIOD_S = 0.01


class LoopLag:
    """Watches the running loop inside an ``async with`` block; ``worst_ns`` is its longest delay of a timer."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self.worst_ns = 0

    def take_worst_ns(self) -> int:
        """The longest delay since the last call, which begins anew here."""
        worst, self.worst_ns = self.worst_ns, 0
        return worst

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self) -> None:
        while True:
            before = self._clock()
            await asyncio.sleep(_PERIOD_S)
            self.worst_ns = max(self.worst_ns, self._clock() - before - round(_PERIOD_S * 1e9))
