"""What the operator asks of the prefix cache and has it do: pins, and the tree."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.questions import Questions
from anaphora.kvcache.pins import Pin
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.types import Namespace


@dataclass(frozen=True, slots=True)
class PinnedPrefixes:
    """All pins at one moment of the engine's clock."""

    pins: tuple[Pin, ...]
    num_blocks: int
    """Different blocks that are pinned."""
    max_blocks: int
    max_pins: int
    now_s: float


class CacheOperations:
    """All of it happens in the engine's thread, between two steps.

    Every method raises ``EngineDeadError`` once the engine has stopped.
    """

    def __init__(self, questions: Questions) -> None:
        self._questions = questions

    async def pin(
        self, name: str, namespace: Namespace, token_ids: Sequence[int], time_to_live_s: float | None = None
    ) -> Pin:
        """Keep what is cached of a prefix. A pin of the same name is replaced.

        Raises:
            PinError: nothing of it is cached, or more would be pinned than may be.
            RequestError: something in it is no token id.
        """
        return await self._questions.ask(lambda core: core.pin(name, namespace, token_ids, time_to_live_s))

    async def unpin(self, name: str) -> bool:
        """Let a pin go; ``False`` if there is none of that name."""
        return await self._questions.ask(lambda core: core.unpin(name))

    async def pins(self) -> PinnedPrefixes:
        """The pins whose time is not over."""
        return await self._questions.ask(_pinned)

    async def namespaces(self) -> list[Namespace]:
        """The namespaces that have anything in the prefix index."""
        return await self._questions.ask(EngineCore.cache_namespaces)

    async def tree(self, namespace: Namespace | None, max_nodes: int) -> list[TreeNode]:
        """What stands in the prefix index, of one namespace or of all; at most the first ``max_nodes``."""
        return await self._questions.ask(partial(EngineCore.cache_tree, namespace=namespace, max_nodes=max_nodes))


def _pinned(core: EngineCore) -> PinnedPrefixes:
    pins = core.pins()
    held = core.scheduler.cache.pins
    return PinnedPrefixes(pins, held.num_blocks, held.max_blocks, held.max_pins, core.clock())
