"""What makes a folder a model: configuration, tokenizer, and every weight file that its index names."""

from pathlib import Path

from anaphora.checkpoints.json_fields import read_json_object
from anaphora.errors import CheckpointError

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files of the model in ``folder``, in a fixed order.

    Raises:
        CheckpointError: there are none, or one that the index names is missing.
    """
    index = folder / INDEX_FILE
    if index.exists():
        weight_map = read_json_object(index).get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
            raise CheckpointError(f"{index} is damaged: it has no weight_map")
        files = [folder / Path(name).name for name in sorted(set(weight_map.values()))]
    elif (folder / WEIGHTS_FILE).exists():
        files = [folder / WEIGHTS_FILE]  # whatever lies beside it (an adapter, another layout) is not the model
    else:
        files = sorted(folder.glob("*.safetensors"))
    missing = [file.name for file in files if not file.is_file()]
    if missing:
        raise CheckpointError(f"{folder}: {missing[0]} is missing: fetch or copy the model again")
    if not files:
        raise CheckpointError(_no_weights(folder))
    return files


def check_folder(folder: Path, needs_weights: bool = True) -> None:
    """See that ``folder`` holds a whole model, or all of one but the weights.

    Raises:
        CheckpointError: a file is missing; the message names it.
    """
    if not (folder / "config.json").is_file():
        gguf = next((path.name for path in sorted(folder.glob("*.gguf"))), None)
        advice = f": name the file itself, {folder / gguf}" if gguf else ""
        raise CheckpointError(f"{folder} is no model folder: config.json is missing{advice}")
    if needs_weights:
        weight_files(folder)
    if not (folder / "tokenizer.json").is_file():
        raise CheckpointError(f"{folder}: tokenizer.json is missing (other tokenizer files are not read)")


def _no_weights(folder: Path) -> str:
    pickled = next((f.name for pattern in ("*.bin", "*.pt", "*.pth") for f in sorted(folder.glob(pattern))), None)
    if pickled:
        return f"{folder}: only safetensors weights are loaded, and {pickled} is pickled: convert it to safetensors"
    return f"{folder} has no *.safetensors"
