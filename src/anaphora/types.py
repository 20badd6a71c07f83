"""The shared vocabulary: ids that must not be mixed up get types of their own."""

from typing import NewType

TokenId = NewType("TokenId", int)
"""Index of a token in the model's vocabulary. Sequences of them travel as plain ``Sequence[int]``: tokenizers,
JSON and torch all speak ``int``, and a cast per token would cost more than the type could save."""

BlockId = NewType("BlockId", int)
"""Index of a physical block in the KV tensors; 0-based."""

BlockKey = NewType("BlockKey", bytes)
"""Content digest of a prefix that ends at a block border: identity across processes and disks, never proof of a hit."""

RequestId = NewType("RequestId", str)
"""Name of one engine request: a prompt and one continuation of it."""

Namespace = NewType("Namespace", str)
"""Whom cached blocks belong to. Requests of different namespaces never share blocks. Made by the server from the
tenant's (API key, ``cache_salt``); the empty namespace is the default tenant without a salt."""
