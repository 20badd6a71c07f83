"""What is remembered for the ledger's sake, per namespace and bounded: evicted prefixes and earlier prompts."""

from collections import OrderedDict
from collections.abc import Callable, Iterator

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.prefix_index import PrefixNode
from anaphora.kvcache.prompt_memory import PromptMemory
from anaphora.types import Namespace


class NamespaceMemory:
    """The memory of one namespace. ``on_forget`` is called with a node whose eviction is no longer remembered."""

    def __init__(self, config: CacheConfig, on_forget: Callable[[PrefixNode], None]) -> None:
        self.prompts = PromptMemory(config.max_remembered_prompts)
        self.num_evicted_blocks = 0
        """Evictions so far: the clock by which the age of one is told."""
        self._max_evictions = config.max_remembered_evictions
        # Oldest first. A child is evicted before its parent, so the oldest never has remembered children.
        self._evicted: OrderedDict[PrefixNode, None] = OrderedDict()
        self._on_forget = on_forget

    def add_eviction(self, node: PrefixNode) -> None:
        """The node has lost its block to eviction."""
        self.num_evicted_blocks += 1
        node.evicted_at = self.num_evicted_blocks
        self._evicted[node] = None
        if len(self._evicted) > self._max_evictions:
            self._forget_oldest()

    def drop_eviction(self, node: PrefixNode) -> None:
        """The node is cached again."""
        del self._evicted[node]
        node.evicted_at = None

    def forget_evictions(self) -> None:
        """Let go of every evicted prefix."""
        while self._evicted:
            self._forget_oldest()

    @property
    def num_remembered_evictions(self) -> int:
        return len(self._evicted)

    def __iter__(self) -> Iterator[PrefixNode]:
        """The evicted nodes, the oldest eviction first."""
        return iter(self._evicted)

    def _forget_oldest(self) -> None:
        node, _ = self._evicted.popitem(last=False)
        node.evicted_at = None
        self._on_forget(node)


class Memory:
    """The memories of the namespaces used last. Beyond the bound, the one used longest ago is forgotten whole."""

    def __init__(self, config: CacheConfig, on_forget: Callable[[PrefixNode], None]) -> None:
        self._config = config
        self._on_forget = on_forget
        self._namespaces: OrderedDict[Namespace, NamespaceMemory] = OrderedDict()

    def get(self, namespace: Namespace) -> NamespaceMemory | None:
        """What is remembered of a namespace, if anything."""
        return self._namespaces.get(namespace)

    def touch(self, namespace: Namespace) -> NamespaceMemory:
        """The namespace is used now."""
        memory = self._namespaces.get(namespace)
        if memory is None:
            memory = self._namespaces[namespace] = NamespaceMemory(self._config, self._on_forget)
        self._namespaces.move_to_end(namespace)
        if len(self._namespaces) > self._config.max_remembered_namespaces:
            _, oldest = self._namespaces.popitem(last=False)
            oldest.forget_evictions()
        return memory

    def __iter__(self) -> Iterator[NamespaceMemory]:
        return iter(self._namespaces.values())

    def clear(self) -> None:
        """Forget everything without a word: the index is cleared too."""
        self._namespaces.clear()
