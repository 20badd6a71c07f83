"""Content digests of prefixes: the same prefix has the same key in every process, on every disk.

A key is an identity for routers, events and stores. It is never proof of a hit: that is the prefix index's business,
which compares tokens.
"""

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from hashlib import sha256

from anaphora.types import BlockKey, Namespace


class KeyKind(IntEnum):
    """What a link of the chain stands for. The numbers are part of every key: they never change their meaning."""

    TOKENS = 1
    """The tokens of one block, as unsigned 32-bit numbers, little-endian."""
    NAMESPACE = 2
    ADAPTER = 3
    """An adapter's content, not its name."""
    WEIGHTS = 4
    """The generation of the weights."""
    MEDIA = 5
    """Content of an image or a sound that stands in the next block."""


ROOT_KEY = BlockKey(sha256(b"anaphora block key, version 1").digest())
"""The key of the empty prefix. Callers may chain weights or an adapter to it before anything else."""


def extend_key(parent: BlockKey, kind: KeyKind, content: bytes) -> BlockKey:
    """The key of ``parent`` followed by ``content``.

    Kind and length are digested too, so that a salt that spells an adapter's name, or two parts cut elsewhere, never
    lead to the same key.
    """
    return BlockKey(sha256(parent + struct.pack("<BQ", kind, len(content)) + content).digest())


def namespace_key(parent: BlockKey, namespace: Namespace) -> BlockKey:
    """The key under which a namespace's blocks begin. The empty namespace adds nothing."""
    return extend_key(parent, KeyKind.NAMESPACE, namespace.encode()) if namespace else parent


def prefix_keys(namespace: Namespace, blocks: Iterable[bytes], root: BlockKey = ROOT_KEY) -> Iterator[BlockKey]:
    """The key of each prefix that the packed ``blocks`` spell, the shortest first."""
    key = namespace_key(root, namespace)
    for tokens in blocks:
        key = extend_key(key, KeyKind.TOKENS, tokens)
        yield key
