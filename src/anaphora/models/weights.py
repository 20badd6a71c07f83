"""Where a model's tensors come from: safetensors files or a seeded generator. Checked by name and shape."""

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Protocol

import torch
from safetensors import SafetensorError, safe_open

from anaphora.errors import CheckpointError

SINGLE_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
DUMMY_SEED = 0
DUMMY_STD = 0.02


class TensorSource(Protocol):
    """Gives each tensor of a model once, and says at the end whether any was left over."""

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        """The tensor called ``name``, which must have ``shape``. May be a view of a mapped file: do not write to it.

        Raises:
            CheckpointError: it is missing or has another shape.
        """
        ...

    def finish(self, ignored: Callable[[str], bool]) -> None:
        """Close the source.

        Raises:
            CheckpointError: a tensor was never taken and ``ignored`` does not know its name.
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
        self._files = ExitStack()
        self._handles: dict[Path, Any] = {}
        self._where = _tensor_files(folder)
        self._total = len(self._where)
        self._progress = progress

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        path = self._where.pop(name, None)
        if path is None:
            raise CheckpointError(f"{self._folder} lacks the tensor {name}: fetch the model again")
        try:
            if path not in self._handles:
                self._handles[path] = self._files.enter_context(safe_open(path, framework="pt"))
            tensor: torch.Tensor = self._handles[path].get_tensor(name)
        except (SafetensorError, OSError) as error:
            raise CheckpointError(f"{path} cannot be read ({name}: {error}): fetch the model again") from error
        if tuple(tensor.shape) != tuple(shape):
            raise CheckpointError(f"{name} in {path} has shape {list(tensor.shape)}, config.json means {list(shape)}")
        if self._progress is not None:
            self._progress(self._total - len(self._where), self._total)
        return tensor

    def finish(self, ignored: Callable[[str], bool]) -> None:
        self._handles.clear()
        self._files.close()
        unexpected = sorted(name for name in self._where if not ignored(name))
        if unexpected:
            more = f" and {len(unexpected) - 1} more" if len(unexpected) > 1 else ""
            raise CheckpointError(f"{self._folder} has an unexpected tensor {unexpected[0]}{more}: unsupported model")


class DummySource:
    """Random weights of a fixed seed: right sizes and timing without a checkpoint, no sense in the output."""

    def __init__(self) -> None:
        self._generator = torch.Generator().manual_seed(DUMMY_SEED)

    def take(self, name: str, shape: Sequence[int]) -> torch.Tensor:
        if name.endswith("norm.weight"):
            return torch.ones(*shape)
        return torch.empty(*shape).normal_(std=DUMMY_STD, generator=self._generator)

    def finish(self, ignored: Callable[[str], bool]) -> None:
        """Nothing can be left over."""


def _tensor_files(folder: Path) -> dict[str, Path]:
    """The file of every tensor."""
    single, index = folder / SINGLE_FILE, folder / INDEX_FILE
    if index.exists():
        return _read_index(folder, index)
    if not single.exists():
        raise CheckpointError(f"{folder} has neither {SINGLE_FILE} nor {INDEX_FILE}: give a folder of safetensors")
    try:
        with safe_open(single, framework="pt") as file:
            return dict.fromkeys(file.keys(), single)
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{single} cannot be read ({error}): fetch the model again") from error


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
