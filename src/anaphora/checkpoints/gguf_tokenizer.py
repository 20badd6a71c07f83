"""The tokenizer in a GGUF file (lists of tokens, their types and merges), written as ``tokenizer.json``.

Only byte-level BPE is rebuilt: there the lists and the name of the pre-tokenizer say everything.
"""

from typing import Any

from anaphora.checkpoints.gguf_file import GgufFile
from anaphora.errors import CheckpointError

_CONTROL, _USER_DEFINED, _UNUSED = 3, 4, 5
_PREFIX = "tokenizer.ggml."

_GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_QWEN2_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA3_PATTERN = _QWEN2_PATTERN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def _byte_level(use_regex: bool) -> dict[str, Any]:
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}


def _sequence(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"type": "Sequence", "pretokenizers": [*steps, _byte_level(use_regex=False)]}


def _split(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


_PRE_TOKENIZERS: dict[str, dict[str, Any]] = {
    "gpt-2": _byte_level(use_regex=True),
    # The pattern is the one inside ByteLevel: written out, fastokens takes a third of the time.
    "smollm": _sequence({"type": "Digits", "individual_digits": True}, _split(_GPT2_PATTERN)),
    "qwen2": _sequence(_split(_QWEN2_PATTERN)),
    "llama-bpe": _sequence(_split(_LLAMA3_PATTERN)),
}
_ALIASES = {
    "default": "gpt-2",
    "llama3": "llama-bpe",
    "llama-v3": "llama-bpe",
    "deepseek-r1-qwen": "qwen2",
}
_SPECIAL_NAMES = {
    "bos_token": "bos_token_id",
    "eos_token": "eos_token_id",
    "unk_token": "unknown_token_id",
    "pad_token": "padding_token_id",
}


def gguf_tokenizer(file: GgufFile) -> tuple[dict[str, Any], dict[str, Any]]:
    """The objects of ``tokenizer.json`` and ``tokenizer_config.json``.

    Raises:
        CheckpointError: the kind of tokenizer is not supported, or its lists do not fit together.
    """
    lists = _Lists(file)
    pre_name = _pre_tokenizer_name(file)
    special_tokens = {name: lists.token_at(f"{_PREFIX}{key}") for name, key in _SPECIAL_NAMES.items()}
    bos = special_tokens["bos_token"] if file.metadata.get(f"{_PREFIX}add_bos_token", pre_name == "llama-bpe") else None
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": lists.added_tokens(),
        "normalizer": {"type": "NFC"} if pre_name == "qwen2" else None,
        "pre_tokenizer": _PRE_TOKENIZERS[pre_name],
        "post_processor": _post_processor(bos, lists),
        "decoder": _byte_level(use_regex=True),
        "model": lists.bpe(ignore_merges=pre_name == "llama-bpe"),
    }
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        **{name: text for name, text in special_tokens.items() if text is not None},
    }
    template = file.metadata.get("tokenizer.chat_template")
    return tokenizer, config | ({"chat_template": template} if isinstance(template, str) else {})


def _pre_tokenizer_name(file: GgufFile) -> str:
    model = file.metadata.get(f"{_PREFIX}model")
    if model != "gpt2":
        raise CheckpointError(
            f"{file.path}: its tokenizer is of the kind {model}, and only gpt2 (byte-level BPE) can be rebuilt: "
            "use the model's safetensors folder"
        )
    qwen = str(file.metadata.get("general.architecture")).startswith("qwen")
    name = str(file.metadata.get(f"{_PREFIX}pre", "qwen2" if qwen else None))
    name = _ALIASES.get(name, name)
    if name not in _PRE_TOKENIZERS:
        supported = ", ".join(sorted({*_PRE_TOKENIZERS, *_ALIASES}))
        raise CheckpointError(f"{file.path}: pre-tokenizer {name} is not supported (supported: {supported})")
    return name


def _post_processor(bos: str | None, lists: "_Lists") -> dict[str, Any]:
    """Puts ``bos`` in front of each text, if there is to be one."""
    if bos is None:
        return _byte_level(use_regex=True)
    first = {"SpecialToken": {"id": bos, "type_id": 0}}
    second = {"SpecialToken": {"id": bos, "type_id": 1}}
    return {
        "type": "TemplateProcessing",
        "single": [first, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [first, {"Sequence": {"id": "A", "type_id": 0}}, second, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {bos: {"id": bos, "ids": [lists.tokens.index(bos)], "tokens": [bos]}},
    }


class _Lists:
    """The parallel lists, known to fit together."""

    def __init__(self, file: GgufFile) -> None:
        self._file = file
        self.tokens: list[str] = self._list("tokens", str)
        self._types: list[int] = self._list("token_type", int)
        self._merges: list[str] = self._list("merges", str)
        if len(self._types) != len(self.tokens):
            raise CheckpointError(f"{file.path}: its lists of tokens and token types differ in length")

    def _list(self, key: str, kind: type) -> list[Any]:
        value = self._file.metadata.get(_PREFIX + key)
        if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
            raise CheckpointError(f"{self._file.path}: {_PREFIX}{key} is missing or no list of {kind.__name__}")
        return value

    def token_at(self, key: str) -> str | None:
        """The token whose id stands under ``key``."""
        token_id = self._file.metadata.get(key)
        if token_id is None:
            return None
        if not isinstance(token_id, int) or not 0 <= token_id < len(self.tokens):
            raise CheckpointError(f"{self._file.path}: {key} = {token_id} is no token id")
        return self.tokens[token_id]

    def added_tokens(self) -> list[dict[str, Any]]:
        """Control tokens are special (not part of the text); user-defined ones are text, but never split."""
        flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
        return [
            {"id": token_id, "content": text, **flags, "special": kind == _CONTROL}
            for token_id, (text, kind) in enumerate(zip(self.tokens, self._types, strict=True))
            if kind in (_CONTROL, _USER_DEFINED)
        ]

    def bpe(self, *, ignore_merges: bool) -> dict[str, Any]:
        """The model part. Unused entries only pad the embedding: they are no tokens."""
        pairs = zip(self.tokens, self._types, strict=True)
        vocabulary = {text: token_id for token_id, (text, kind) in enumerate(pairs) if kind != _UNUSED}
        merges = [merge.split(" ") for merge in self._merges]
        if not all(len(merge) == 2 for merge in merges):
            raise CheckpointError(f"{self._file.path}: {_PREFIX}merges holds something that is no pair")
        return {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": ignore_merges,
            "vocab": vocabulary,
            "merges": merges,
        }
