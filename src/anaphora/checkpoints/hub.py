"""Models by name (``owner/name``) from the Hugging Face hub, by its own client and in its own cache.

A model that is in the cache is used as it is, without asking the hub: a start needs no network. ``hf download NAME``
brings a newer version.
"""

import io
import re
from pathlib import Path
from typing import Any

from anaphora.checkpoints.folder import check_folder
from anaphora.checkpoints.progress import Progress
from anaphora.errors import CheckpointError

_NAME = re.compile(r"\w[\w.-]*/\w[\w.-]*")
_DESCRIPTIONS = ("*.json", "*.jinja")
_WEIGHTS = ("*.safetensors",)
_NOT_WANTED = ("consolidated*", "adapter_*", "onnx/*", "original/*")
_PROBE_TIMEOUT_S = 3.0


def is_hub_name(model: str) -> bool:
    """Whether ``model`` has the form of a name on the hub."""
    return _NAME.fullmatch(model) is not None


def cached_folder(name: str, needs_weights: bool = True) -> Path | None:
    """The model's folder in the hub client's cache, or ``None`` if it is not there or not whole."""
    import huggingface_hub  # takes a fifth of a second, and most starts do not need it

    try:
        folder = Path(huggingface_hub.snapshot_download(name, local_files_only=True, allow_patterns=[*_DESCRIPTIONS]))
        check_folder(folder, needs_weights)
    except (OSError, ValueError, CheckpointError):
        return None
    return folder


def hub_folder(name: str, progress: Progress, needs_weights: bool = True) -> Path:
    """The folder of model ``name``, from the cache or else from the hub; without weights, if they are not needed.

    Raises:
        CheckpointError: the hub cannot be reached, or has no such model for us.
    """
    folder = cached_folder(name, needs_weights)
    if folder is None:
        try:
            folder = _download(name, progress, needs_weights)
        except Exception as error:  # the client's transport, and so its exceptions, change between versions
            raise CheckpointError(_explain(name, error)) from error
        check_folder(folder, needs_weights)
    return folder


def _download(name: str, progress: Progress, needs_weights: bool) -> Path:
    import huggingface_hub

    huggingface_hub.HfApi().model_info(name, timeout=_PROBE_TIMEOUT_S)  # says at once if there is no way to it
    bar = _bar_class(f"downloading {name}", progress)
    # Weights come last: if they are there, so is everything else, and an interrupted download is never taken for whole.
    for patterns in (_DESCRIPTIONS, _WEIGHTS) if needs_weights else (_DESCRIPTIONS,):
        folder = huggingface_hub.snapshot_download(
            name, allow_patterns=[*patterns], ignore_patterns=[*_NOT_WANTED], tqdm_class=bar
        )
    return Path(folder)


def _bar_class(task: str, progress: Progress) -> Any:
    """A class of the client's progress bars that draws nothing and reports bytes to ``progress``."""
    from huggingface_hub import utils

    base: Any = utils.tqdm  # type: ignore[attr-defined]

    class Bar(base):  # type: ignore[misc]
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **(kwargs | {"file": io.StringIO(), "disable": False}))

        def display(self, *_: Any, **__: Any) -> None:
            if self.unit == "B":
                progress(task, int(self.n), int(self.total or 0))

    return Bar


def _explain(name: str, error: Exception) -> str:
    from huggingface_hub import errors

    if isinstance(error, errors.GatedRepoError):
        return f"{name} is gated: ask for access on its page on the hub, and set HF_TOKEN"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the hub has no model {name}, or it is private: check the name, or set HF_TOKEN"
    reason = next(iter(str(error).strip().splitlines()), "") or type(error).__name__
    return (
        f"{name} cannot be fetched from the hub ({reason}): check the network and HF_ENDPOINT, "
        "or give a local folder or a .gguf file"
    )
