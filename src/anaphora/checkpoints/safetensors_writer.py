"""Write a safetensors file one tensor after the other, with no more than a chunk of one in memory.

Format: eight bytes little-endian with the length of the JSON header; the header, which says for each tensor dtype,
shape and where its bytes lie behind the header; then the bytes. https://github.com/huggingface/safetensors
"""

import json
import math
import struct
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Float32Array = np.ndarray[Any, np.dtype[np.float32]]

_ALIGNMENT = 8


def write_float32(path: Path, shapes: Mapping[str, tuple[int, ...]], chunks: Iterable[Float32Array]) -> None:
    """Write float32 tensors of the given names and shapes; ``chunks`` are their values in that order, in any portions.

    Raises:
        OSError: the disk is full or the file cannot be written.
    """
    header, num_bytes = _header(shapes)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        start = file.tell()
        for chunk in chunks:
            file.write(np.ascontiguousarray(chunk, "<f4").data)
        assert file.tell() - start == num_bytes, "the chunks do not fit the shapes"


def _header(shapes: Mapping[str, tuple[int, ...]]) -> tuple[bytes, int]:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        entries[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    header = json.dumps(entries, separators=(",", ":")).encode()
    return header + b" " * (-len(header) % _ALIGNMENT), end
