"""Which model is meant, and where its files lie: a folder, a GGUF file, a name on the hub, or the default model."""

from dataclasses import dataclass
from pathlib import Path

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.checkpoints.default_model import DEFAULT_MODEL, default_folder
from anaphora.checkpoints.folder import check_folder
from anaphora.checkpoints.gguf_conversion import converted_folder, gguf_model_config
from anaphora.checkpoints.hub import hub_folder, is_hub_name
from anaphora.checkpoints.model_config import ModelConfig
from anaphora.checkpoints.progress import Progress, silent
from anaphora.errors import CheckpointError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A model on this machine, whole and understood.

    ``path``: a folder with ``config.json``, ``tokenizer.json`` and ``*.safetensors``. ``name``: what to call it when
    nobody says otherwise.
    """

    name: str
    path: Path
    config: ModelConfig


def find_checkpoint(model: str | None = None, *, progress: Progress = silent, needs_weights: bool = True) -> Checkpoint:
    """The checkpoint that ``model`` means, fetched or converted first if need be.

    Without ``needs_weights`` a folder may lack them, and a hub is not asked for them: then only its configuration and
    tokenizer are of use.

    Raises:
        CheckpointError: there is no such model, or it cannot be fetched, converted or understood.
    """
    if model is None or model == DEFAULT_MODEL:
        return _open(DEFAULT_MODEL, default_folder(progress))
    path = Path(model).expanduser()
    if model and path.is_dir():  # an empty text would be the current folder
        return _open(path.resolve().name, path.absolute(), needs_weights)
    if path.is_file():
        return _open(path.stem, converted_folder(path, progress))
    if not is_hub_name(model) or path.suffix == ".gguf":
        raise CheckpointError(
            f"{model!r}: no such folder or file, and no name on the hub (owner/name): check the spelling"
        )
    return _open(model, hub_folder(model, progress, needs_weights), needs_weights)


def find_model_config(model: str, *, progress: Progress = silent) -> ModelConfig:
    """What :func:`find_checkpoint` would say of ``model``'s sizes, and no weight is fetched or converted for it.

    Of a folder, ``config.json`` suffices.

    Raises:
        CheckpointError: as there.
    """
    path = Path(model).expanduser()
    if model and path.is_dir():
        return read_model_config(path)
    if path.is_file():
        return gguf_model_config(path)
    return find_checkpoint(model, progress=progress, needs_weights=False).config


def _open(name: str, folder: Path, needs_weights: bool = True) -> Checkpoint:
    check_folder(folder, needs_weights)
    return Checkpoint(name, folder, read_model_config(folder))
