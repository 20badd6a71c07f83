"""The header of a GGUF file and views of its tensors. Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

A walk of our own over the header: the ``gguf`` package keeps every string of a vocabulary as an array, which takes
seconds. Nothing in the file is believed: each count and offset is compared with the size of the file first.
"""

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

from anaphora.errors import CheckpointError

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_DEFAULT_ALIGNMENT = 32
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_MAX_DIMENSIONS = 4


@dataclass(frozen=True, slots=True)
class GgufTensor:
    """One tensor as it lies in the file. ``shape`` is row-major (GGUF itself writes the fastest dimension first)."""

    name: str
    shape: tuple[int, ...]
    kind: GGMLQuantizationType
    offset: int
    """From the beginning of the file, in bytes."""
    row_bytes: int

    @property
    def num_rows(self) -> int:
        """Rows of the last dimension's length."""
        return math.prod(self.shape[:-1])


class GgufFile:
    """An open GGUF file: ``with GgufFile(path) as file``. Tensor data is mapped, not read.

    Raises:
        CheckpointError: the file cannot be read, is no GGUF file, or is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # an empty file cannot be mapped
            raise CheckpointError(f"{path} cannot be read as a GGUF file: {error}") from error
        self.metadata: dict[str, Any] = {}
        self.tensors: dict[str, GgufTensor] = {}
        try:
            self._read_header()
        except (CheckpointError, struct.error, ValueError, OverflowError) as error:
            self.close()
            raise CheckpointError(f"{path} is a damaged GGUF file: {error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._map.close()

    def raw_rows(self, tensor: GgufTensor, rows: slice | np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.uint8]]:
        """A copy of some rows as they are stored, shape ``[rows, row_bytes]``."""
        everything = np.ndarray((tensor.num_rows, tensor.row_bytes), np.uint8, self._map, tensor.offset)
        return everything[rows].copy()

    def _read_header(self) -> None:
        cursor = _Cursor(self._map)
        if cursor.take(4) != _MAGIC:
            raise CheckpointError("it does not begin with GGUF")
        version = cursor.scalar("I")
        if version not in _VERSIONS:
            raise CheckpointError(f"version {version} is not supported (supported: {_VERSIONS})")
        num_tensors, num_keys = cursor.scalar("Q"), cursor.scalar("Q")
        for _ in range(num_keys):
            key = cursor.string()
            self.metadata[key] = cursor.value(cursor.scalar("I"))
        entries = [_read_tensor_entry(cursor) for _ in range(num_tensors)]
        alignment = self.metadata.get("general.alignment", _DEFAULT_ALIGNMENT)
        if not isinstance(alignment, int) or alignment < 1:
            raise CheckpointError(f"general.alignment is {alignment}")
        data_start = -(-cursor.position // alignment) * alignment
        for entry in entries:
            self._add_tensor(entry, data_start)

    def _add_tensor(self, entry: tuple[str, tuple[int, ...], int, int], data_start: int) -> None:
        name, shape, kind_id, offset = entry
        try:
            kind = GGMLQuantizationType(kind_id)
        except ValueError:
            raise CheckpointError(f"tensor {name} has an unknown quantisation, number {kind_id}") from None
        block_size, block_bytes = GGML_QUANT_SIZES[kind]
        if shape[-1] % block_size:
            raise CheckpointError(f"tensor {name} has rows of {shape[-1]}, no multiple of {block_size}")
        tensor = GgufTensor(name, shape, kind, data_start + offset, shape[-1] // block_size * block_bytes)
        if name in self.tensors or tensor.offset + tensor.num_rows * tensor.row_bytes > len(self._map):
            raise CheckpointError(f"tensor {name} is there twice or reaches beyond the end: it is cut short")
        self.tensors[name] = tensor


def _read_tensor_entry(cursor: "_Cursor") -> tuple[str, tuple[int, ...], int, int]:
    """Name, row-major shape, number of the quantisation, offset from the data's start."""
    name = cursor.string()
    num_dimensions = cursor.scalar("I")
    if not 1 <= num_dimensions <= _MAX_DIMENSIONS:
        raise CheckpointError(f"tensor {name} has {num_dimensions} dimensions")
    shape = tuple(cursor.scalar("Q") for _ in range(num_dimensions))[::-1]
    if not all(0 < size < 1 << 40 for size in shape):
        raise CheckpointError(f"tensor {name} has the shape {shape}")
    return name, shape, cursor.scalar("I"), cursor.scalar("Q")


class _Cursor:
    """Reads little-endian values one after the other, never beyond the end."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self.position = 0

    def take(self, num_bytes: int) -> bytes:
        start, end = self.position, self.position + num_bytes
        if end > len(self._data):
            raise CheckpointError("it ends inside its header: it is cut short")
        self.position = end
        return self._data[start:end]

    def scalar(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self.take(struct.calcsize(f"<{code}")))[0]

    def string(self) -> str:
        return self.take(self.scalar("Q")).decode()

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array(self.scalar("I"), self.scalar("Q"))
        if kind not in _SCALARS:
            raise CheckpointError(f"a metadata value has an unknown type, number {kind}")
        return self.scalar(_SCALARS[kind])

    def _array(self, kind: int, count: int) -> list[Any]:
        if kind == _STRING:
            return self._strings(count)
        if kind not in _SCALARS:
            raise CheckpointError(f"a metadata array has an unsupported type, number {kind}")
        code = _SCALARS[kind]
        return list(struct.unpack(f"<{count}{code}", self.take(count * struct.calcsize(f"<{code}"))))

    def _strings(self, count: int) -> list[str]:
        """The hot loop: a vocabulary has some 100 000 of them."""
        data, position, end = self._data, self.position, len(self._data)
        read_length = struct.Struct("<Q").unpack_from
        strings: list[str] = []
        for _ in range(count):
            start = position + 8
            if start > end:
                break
            position = start + read_length(data, position)[0]
            if position > end:
                break
            strings.append(data[start:position].decode())
        if len(strings) != count:
            raise CheckpointError("it ends inside its header: it is cut short")
        self.position = position
        return strings
