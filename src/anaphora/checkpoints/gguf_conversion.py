"""A GGUF file → a model folder that everything else here can read: float32 safetensors, configuration, tokenizer."""

import hashlib
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.checkpoints.gguf_config import gguf_config
from anaphora.checkpoints.gguf_file import GgufFile
from anaphora.checkpoints.gguf_tokenizer import gguf_tokenizer
from anaphora.checkpoints.gguf_weights import GgufWeights
from anaphora.checkpoints.home import anaphora_home, make_once
from anaphora.checkpoints.model_config import ModelConfig
from anaphora.checkpoints.progress import Progress
from anaphora.checkpoints.safetensors_writer import write_float32

CONVERSION_VERSION = 1
"""Counts changes of what a conversion writes: folders of another version are made again."""


def convert_gguf(source: Path, folder: Path, progress: Progress) -> None:
    """Make the model folder ``folder`` from the GGUF file ``source``.

    Weights are taken tensor by tensor, so memory stays at some megabytes whatever the size of the model.

    Raises:
        CheckpointError: the file is damaged, or something in it is not supported.
        OSError: the disk is full.
    """
    with GgufFile(source) as file:
        folder.mkdir()
        _write_json(folder / "config.json", gguf_config(file))
        tokenizer, tokenizer_config = gguf_tokenizer(file)
        _write_json(folder / "tokenizer.json", tokenizer)
        _write_json(folder / "tokenizer_config.json", tokenizer_config)
        weights = GgufWeights(file, read_model_config(folder))
        write_float32(folder / "model.safetensors", weights.shapes, weights.chunks(progress))


def converted_folder(source: Path, progress: Progress) -> Path:
    """The folder in the home that holds ``source`` converted; made once per file, size and time of change.

    Raises:
        CheckpointError: the file is missing or damaged, something in it is not supported, or the disk is full.
    """
    source = source.resolve()
    status = source.stat()
    identity = f"{source}\0{status.st_size}\0{status.st_mtime_ns}"
    digest = hashlib.sha256(identity.encode()).hexdigest()[:12]
    target = anaphora_home() / "models" / f"{source.stem}-{digest}-v{CONVERSION_VERSION}"
    return make_once(target, lambda folder: convert_gguf(source, folder, progress), progress)


def gguf_model_config(source: Path) -> ModelConfig:
    """The configuration that the converted ``source`` would have, from its header alone.

    Raises:
        CheckpointError: as :func:`converted_folder`.
    """
    with GgufFile(source) as file, TemporaryDirectory() as folder:
        _write_json(Path(folder) / "config.json", gguf_config(file))
        return read_model_config(Path(folder))


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), "utf-8")
