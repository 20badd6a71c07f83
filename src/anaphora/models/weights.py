"""Where a model's tensors come from: safetensors files or a seeded generator. Checked by name and shape."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol
from zlib import crc32

import torch
from safetensors import SafetensorError, safe_open

from anaphora.errors import CheckpointError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
DUMMY_STD = 0.02


class TensorSource(Protocol):
    """Gives the tensors of a model by name, and says at the end whether any was left over."""

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """The tensor called ``name``, which must have ``shape``. It is a view into a file: copy it before ``finish``.

        Raises:
            CheckpointError: it is missing, damaged or has another shape.
        """
        ...

    def table(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """Like :meth:`take`, for a tensor of which few rows are ever read: it may be kept, and only rows that were read
        take memory. Not to be written to."""
        ...

    def finish(self, is_ignored: Callable[[str], bool]) -> None:
        """Close the source.

        Raises:
            CheckpointError: a tensor was never taken, and its name is not one to be ignored.
        """
        ...


class SafetensorsSource:
    """Tensors of a folder with ``model.safetensors``, or with shards and ``model.safetensors.index.json``.

    Files are mapped, not read: a tensor's bytes come into memory when it is copied into its place.
    """

    def __init__(self, folder: Path, progress: Callable[[int, int], None] | None = None) -> None:
        """``progress(done, total)`` counts tensors.

        Raises:
            CheckpointError: no weights in the folder, a shard is missing, or a file is damaged.
        """
        self._folder = folder
        self._progress = progress
        self._files = _tensor_files(folder)
        self._taken: set[str] = set()
        self._open = ExitStack()
        self._handles: dict[Path, Any] = {}

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        path = self._path(name)
        if path not in self._handles:
            self._handles[path] = self._open.enter_context(_opened(path))
        return self._checked(path, self._handles[path], name, shape)

    def table(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        path = self._path(name)
        with _opened(path) as file:  # a mapping of its own, in which nothing else has been touched
            return self._checked(path, file, name, shape)

    def finish(self, is_ignored: Callable[[str], bool]) -> None:
        self._handles.clear()
        self._open.close()
        left = sorted(name for name in self._files.keys() - self._taken if not is_ignored(name))
        if left:
            more = f" and {len(left) - 1} more" if len(left) > 1 else ""
            raise CheckpointError(
                f"{self._folder} has an unexpected tensor {left[0]}{more}: not a model of this family"
            )

    def _path(self, name: str) -> Path:
        if name not in self._files:
            raise CheckpointError(f"{self._folder} lacks the tensor {name}: fetch the model again")
        return self._files[name]

    def _checked(self, path: Path, file: Any, name: str, shape: Sequence[int]) -> torch.Tensor:
        try:
            tensor: torch.Tensor = file.get_tensor(name)
        except SafetensorError as error:
            raise CheckpointError(f"{path} cannot be read ({name}: {error}): fetch the model again") from error
        if tuple(tensor.shape) != tuple(shape):
            raise CheckpointError(f"{name} in {path} has shape {list(tensor.shape)}, config.json means {list(shape)}")
        self._taken.add(name)
        if self._progress is not None:
            self._progress(len(self._taken), len(self._files))
        return tensor


class DummySource:
    """Random weights, seeded by name: right sizes and timing without a checkpoint, no sense in the output.

    They are made on ``device``; devices draw different numbers from the same seed.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self._device = device

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        if name.endswith("norm.weight"):
            return torch.ones(*shape, device=self._device)
        generator = torch.Generator(self._device or "cpu").manual_seed(crc32(name.encode()))
        return torch.empty(*shape, device=self._device).normal_(std=DUMMY_STD, generator=generator)

    def table(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        return self.take(name, shape)

    def finish(self, is_ignored: Callable[[str], bool]) -> None:
        """Nothing can be left over."""


def _opened(path: Path) -> Any:
    try:
        return safe_open(path, framework="pt")
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read ({error}): fetch the model again") from error


def _tensor_files(folder: Path) -> dict[str, Path]:
    """The file of every tensor."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if index.exists():
        return _read_index(folder, index)
    if not single.exists():
        raise CheckpointError(f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}: give a folder of safetensors")
    with _opened(single) as file:
        return dict.fromkeys(file.keys(), single)


def _read_index(folder: Path, index: Path) -> dict[str, Path]:
    try:
        names: dict[str, str] = json.loads(index.read_text("utf-8"))["weight_map"]
        where = {tensor: folder / Path(file).name for tensor, file in names.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is damaged ({error!r}): fetch the model again") from error
    for path in set(where.values()):
        if not path.exists():
            raise CheckpointError(f"{index.name} names {path.name}, which is not in {folder}: fetch the model again")
    return where
