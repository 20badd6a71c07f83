"""What an engine core can be asked between two steps, as plain values: they can be sent to another process.

Each has ``answer(core)``, and ``answer_type`` to read the answer back. None of them touches a request.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from anaphora.kvcache.pins import Pin
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.types import Namespace

if TYPE_CHECKING:  # whoever only asks needs no torch
    from anaphora.engine.engine_core import EngineCore


@dataclass(frozen=True, slots=True)
class PinnedPrefixes:
    """All pins at one moment of the engine's clock."""

    pins: tuple[Pin, ...]
    num_blocks: int
    """Different blocks that are pinned."""
    max_blocks: int
    max_pins: int
    now_s: float


class ResetPrefixCache(msgspec.Struct, frozen=True, tag=True):
    """Forget every cached block; ``False`` while blocks are in use, and then nothing was forgotten."""

    answer_type: ClassVar[Any] = bool

    def answer(self, core: "EngineCore") -> bool:
        """Whether it was done."""
        return core.reset_prefix_cache()


class PinPrefix(msgspec.Struct, frozen=True, tag=True):
    """Keep what is cached of a prefix. A pin of the same name is replaced."""

    answer_type: ClassVar[Any] = Pin
    name: str
    namespace: Namespace
    token_ids: list[int]
    time_to_live_s: float | None

    def answer(self, core: "EngineCore") -> Pin:
        """The pin.

        Raises:
            PinError: nothing of it is cached, or more would be pinned than may be.
            RequestError: something in it is no token id.
        """
        return core.pin(self.name, self.namespace, self.token_ids, self.time_to_live_s)


class Unpin(msgspec.Struct, frozen=True, tag=True):
    """Let a pin go."""

    answer_type: ClassVar[Any] = bool
    name: str

    def answer(self, core: "EngineCore") -> bool:
        """``False`` if there is none of that name."""
        return core.unpin(self.name)


class ListPins(msgspec.Struct, frozen=True, tag=True):
    """The pins whose time is not over."""

    answer_type: ClassVar[Any] = PinnedPrefixes

    def answer(self, core: "EngineCore") -> PinnedPrefixes:
        """They, and how much they hold."""
        pins = core.pins()
        held = core.scheduler.cache.pins
        return PinnedPrefixes(pins, held.num_blocks, held.max_blocks, held.max_pins, core.clock())


class ListNamespaces(msgspec.Struct, frozen=True, tag=True):
    """The namespaces that have anything in the prefix index."""

    answer_type: ClassVar[Any] = list[str]

    def answer(self, core: "EngineCore") -> list[Namespace]:
        """All of them."""
        return core.cache_namespaces()


class DumpTree(msgspec.Struct, frozen=True, tag=True):
    """What stands in the prefix index, of one namespace or of all; at most the first ``max_nodes``."""

    answer_type: ClassVar[Any] = list[TreeNode]
    namespace: Namespace | None
    max_nodes: int

    def answer(self, core: "EngineCore") -> list[TreeNode]:
        """Parents before their children."""
        return core.cache_tree(self.namespace, self.max_nodes)


Question = ResetPrefixCache | PinPrefix | Unpin | ListPins | ListNamespaces | DumpTree
