"""Named special tokens (beginning, end, padding, ...) of a model folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anaphora.checkpoints import read_json_object

_NAMES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")


def read_special_tokens(folder: Path) -> dict[str, str]:
    """Text of each named special token, from ``tokenizer_config.json``, or the older ``special_tokens_map.json`` for
    those that it lacks. Missing files name none."""
    tokens: dict[str, str] = {}
    for path in (folder / "tokenizer_config.json", folder / "special_tokens_map.json"):
        if path.exists():
            tokens = _named(read_json_object(path)) | tokens
    return tokens


def _named(values: Mapping[str, Any]) -> dict[str, str]:
    found = {name: values.get(name) for name in _NAMES}
    texts = {name: value.get("content") if isinstance(value, dict) else value for name, value in found.items()}
    return {name: text for name, text in texts.items() if isinstance(text, str)}
