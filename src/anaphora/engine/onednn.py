"""How many prepared matrix products oneDNN keeps. It must be settled before the first product.

For each number of rows that a product meets, oneDNN prepares a kernel (some hundred kilobytes, milliseconds of work).
Both it and torch's layer above it keep the last 1024 of them. Under continuous batching nearly every step has another
number of rows, so these caches grow for the first thousands of requests, and the gaps between their entries cost as
much again. `benchmarks/soak/products.py` after two small products with 1 to 1600 rows each:

============  ==============
kept by each  resident (MiB)
============  ==============
1024          1466
256           479
128           346
64            283
============  ==============

A step uses about five products, so 128 remember the last 25 numbers of rows: those of decoding and of short prompts.
"""

import os

MAX_KEPT_PRODUCTS = 128
_CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
"""oneDNN's own, and that of the layer between it and torch."""


def keep_few_products() -> None:
    """Bound both caches, unless the user has."""
    for name in _CACHES:
        os.environ.setdefault(name, str(MAX_KEPT_PRODUCTS))
