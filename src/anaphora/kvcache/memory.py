"""What is remembered for the ledger's sake, per namespace and bounded: evicted prefixes and earlier prompts."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.extent_heap import ExtentHeap
from anaphora.kvcache.prompt_memory import PromptMemory
from anaphora.types import Namespace


class NamespaceMemory:
    """The memory of one namespace. ``on_forget`` is called with an extent whose eviction is no longer remembered."""

    def __init__(self, config: CacheConfig, on_forget: Callable[[Extent], None]) -> None:
        self.prompts = PromptMemory(config.max_remembered_prompts)
        self.num_evicted_blocks = 0
        """Evictions so far: the clock by which the age of one is told."""
        self._max_evictions = config.max_remembered_evictions
        # By the number of its oldest eviction, that of its last block. The first one never has remembered children.
        self._evicted = ExtentHeap()
        self._num_remembered = 0
        self._on_forget = on_forget

    def add_eviction(self, extent: Extent) -> None:
        """The extent has lost its blocks to eviction, the last one first."""
        self._evicted.add(extent, self.num_evicted_blocks + 1)
        self._count_evictions(extent, extent.num_blocks)

    def extend_eviction(self, extent: Extent, num_blocks: int) -> None:
        """As many blocks were evicted next, which are now the extent's first."""
        assert extent.evicted_at == self.num_evicted_blocks, extent
        self._count_evictions(extent, num_blocks)

    def drop_eviction(self, extent: Extent) -> None:
        """The extent is cached again."""
        self._evicted.remove(extent)
        self._num_remembered -= extent.num_blocks
        extent.evicted_at = None

    def has_split(self, upper: Extent) -> None:
        """An evicted extent was cut: its first blocks are another one now."""
        assert upper.evicted_at is not None
        self._evicted.add(upper, upper.evicted_at - upper.num_blocks + 1)

    def joins(self, parent: Extent) -> None:
        """An evicted extent is about to become part of its child."""
        self._evicted.remove(parent)

    def forget_evictions(self) -> None:
        """Let go of every evicted prefix."""
        self._forget(self._num_remembered)

    @property
    def num_remembered_evictions(self) -> int:
        """Blocks."""
        return self._num_remembered

    def __iter__(self) -> Iterator[Extent]:
        """The evicted extents, the oldest eviction first."""
        return (extent for _, extent in self._evicted.ranked())

    def _count_evictions(self, extent: Extent, num_blocks: int) -> None:
        self.num_evicted_blocks += num_blocks
        extent.evicted_at = self.num_evicted_blocks
        self._num_remembered += num_blocks
        if self._num_remembered > self._max_evictions:
            self._forget(self._num_remembered - self._max_evictions)

    def _forget(self, num_blocks: int) -> None:
        """Forget the oldest evictions."""
        while num_blocks > 0:
            oldest = self._evicted.first()
            assert oldest is not None
            extent: Extent = oldest[-1]
            if extent.num_blocks <= num_blocks:
                self._evicted.remove(extent)
                num_forgotten = extent.num_blocks
                extent.evicted_at = None
                self._on_forget(extent)
            else:
                num_forgotten = num_blocks
                self._forget_end(extent, num_blocks)
            self._num_remembered -= num_forgotten
            num_blocks -= num_forgotten

    def _forget_end(self, extent: Extent, num_blocks: int) -> None:
        """Forget the last ``num_blocks``, not all, of the extent that lost its blocks first."""
        if not extent.is_attached:
            extent.shorten(num_blocks)  # its place among the others, whose evictions are all later, stays the same
            return
        upper = extent.split(extent.num_blocks - num_blocks)  # a request is computing them again
        self._evicted.remove(extent)
        self.has_split(upper)
        extent.evicted_at = None


class Memory:
    """The memories of the namespaces used last. Beyond the bound, the one used longest ago is forgotten whole."""

    def __init__(self, config: CacheConfig, on_forget: Callable[[Extent], None]) -> None:
        self._config = config
        self._on_forget = on_forget
        self._namespaces: OrderedDict[Namespace, NamespaceMemory] = OrderedDict()

    def get(self, namespace: Namespace) -> NamespaceMemory | None:
        """What is remembered of a namespace, if anything."""
        return self._namespaces.get(namespace)

    def of(self, extent: Extent) -> NamespaceMemory:
        """What remembers an extent that was evicted."""
        assert extent.evicted_at is not None, extent
        return self._namespaces[extent.namespace]

    def touch(self, namespace: Namespace) -> NamespaceMemory:
        """The namespace is used now."""
        memory = self._namespaces.get(namespace)
        if memory is None:
            memory = self._namespaces[namespace] = NamespaceMemory(self._config, self._on_forget)
        self._namespaces.move_to_end(namespace)
        if len(self._namespaces) > self._config.max_remembered_namespaces:
            _, oldest = self._namespaces.popitem(last=False)
            oldest.prompts.clear()
            oldest.forget_evictions()
        return memory

    def __iter__(self) -> Iterator[NamespaceMemory]:
        return iter(self._namespaces.values())

    def clear(self) -> None:
        """Forget everything without a word: the index is cleared too."""
        self._namespaces.clear()
