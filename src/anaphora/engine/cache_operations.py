"""What the operator asks of the prefix cache and has it do: pins, and the tree."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from anaphora.engine.core_questions import (
    DumpTree,
    ListNamespaces,
    ListPins,
    PinnedPrefixes,
    PinPrefix,
    Question,
    Unpin,
)
from anaphora.kvcache.pins import Pin
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.types import Namespace

Ask = Callable[[Question], Awaitable[Any]]


class CacheOperations:
    """All of it happens in the engine's thread, between two steps.

    Every method raises ``EngineDeadError`` once the engine has stopped.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def pin(
        self, name: str, namespace: Namespace, token_ids: Sequence[int], time_to_live_s: float | None = None
    ) -> Pin:
        """Keep what is cached of a prefix. A pin of the same name is replaced.

        Raises:
            PinError: nothing of it is cached, or more would be pinned than may be.
            RequestError: something in it is no token id.
        """
        pin: Pin = await self._ask(PinPrefix(name, namespace, list(token_ids), time_to_live_s))
        return pin

    async def unpin(self, name: str) -> bool:
        """Let a pin go; ``False`` if there is none of that name."""
        was_there: bool = await self._ask(Unpin(name))
        return was_there

    async def pins(self) -> PinnedPrefixes:
        """The pins whose time is not over."""
        pinned: PinnedPrefixes = await self._ask(ListPins())
        return pinned

    async def namespaces(self) -> list[Namespace]:
        """The namespaces that have anything in the prefix index."""
        namespaces: list[Namespace] = await self._ask(ListNamespaces())
        return namespaces

    async def tree(self, namespace: Namespace | None, max_nodes: int) -> list[TreeNode]:
        """What stands in the prefix index, of one namespace or of all; at most the first ``max_nodes``."""
        nodes: list[TreeNode] = await self._ask(DumpTree(namespace, max_nodes))
        return nodes
