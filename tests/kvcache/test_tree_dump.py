"""The index as people see it. Blocks of 2 tokens."""

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.types import Namespace, RequestId

X, Y = Namespace("x"), Namespace("y")


def store(cache: KVCacheManager, namespace: Namespace, tokens: list[int], *, is_kept: bool = False) -> None:
    name = RequestId(f"{namespace}{tokens}")
    match = cache.match(namespace, TokenBlocks(tokens, 2), step=0)
    assert cache.admit(name, match, len(tokens), step=0)
    cache.remember_prompt(namespace, match.tokens.to_bytes(), name)
    if not is_kept:
        cache.commit(name, len(tokens))
        cache.free(name)


def test_each_extent_is_a_node_with_what_it_continues() -> None:
    cache = KVCacheManager(CacheConfig(num_blocks=5, block_size=2))
    store(cache, X, [1, 2, 3, 4])
    store(cache, X, [1, 2, 3, 4, 5])
    store(cache, Y, [8, 8, 8, 8])
    store(cache, Y, [6, 6, 7, 7], is_kept=True)
    assert cache.tree(X) == [
        TreeNode(0, None, X, "cached", 1, 2, (1, 2), 0, 1, 3),
        TreeNode(1, 0, X, "evicted", 1, 2, (3, 4), 0, 0, None),
    ]
    assert [(node.namespace, node.state, node.num_holders) for node in cache.tree()] == [
        (Y, "cached", 0),
        (Y, "pending", 1),
        (X, "cached", 0),
        (X, "evicted", 0),
    ]
    assert cache.tree(max_nodes=3) == cache.tree()[:3]
    assert cache.tree(X, max_nodes=1) == cache.tree(X)[:1]
    assert cache.tree(Namespace("z")) == []
    assert cache.prefixes.index.namespaces == [X, Y]
