"""Servers of which one runs at a time: two of them may not fit the machine, or be slower side by side."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Generic, Self, TypeVar

from anaphora.lab.targets.base import Target

T = TypeVar("T", bound=Target)


class InTurn(Mapping[str, T], Generic[T]):
    """The one that runs now, by its name. ``start(name, stack)`` starts one that lives until ``stack`` closes."""

    def __init__(self, start: Callable[[str, AsyncExitStack], Awaitable[T]]) -> None:
        self._start = start
        self._life = AsyncExitStack()
        self._running: dict[str, T] = {}

    async def take_turn(self, name: str) -> bool:
        """Have that server running, and no other; returns whether it was started just now, with an empty cache."""
        if name in self._running:
            return False
        await self.close()
        self._running[name] = await self._start(name, self._life)
        return True

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop the one that runs, and let it say why it could not be reached."""
        self._running.clear()
        await self._life.__aexit__(kind, error, trace)

    async def close(self) -> None:
        """Stop the one that runs."""
        self._running.clear()
        await self._life.aclose()

    def __getitem__(self, name: str) -> T:
        return self._running[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)
