"""Tokenizers rebuilt from the lists of a GGUF file give the ids of the originals."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import tokenizers

from anaphora.checkpoints.gguf_tokenizer import gguf_tokenizer
from anaphora.errors import CheckpointError

TEXTS = Path(__file__).parents[1] / "data" / "texts"
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5


def rebuilt(metadata: dict[str, Any]) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    file: Any = SimpleNamespace(path=Path("m.gguf"), metadata=metadata)
    tokenizer, config = gguf_tokenizer(file)
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer)), config


def lists(tokens: list[str], types: list[int], merges: list[str]) -> dict[str, Any]:
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": types,
        "tokenizer.ggml.merges": merges,
    }


def small(**keys: Any) -> dict[str, Any]:
    """A vocabulary of the digits, a letter, and what two of them make."""
    metadata = lists([*"0123456789a", "12", "123", "<s>", "</s>"], [NORMAL] * 13 + [CONTROL] * 2, ["1 2", "12 3"])
    return metadata | {f"tokenizer.ggml.{key}": value for key, value in keys.items()}


def lists_of(file: Path) -> dict[str, Any]:
    """What a converter writes for the tokenizer in ``file``, with the embedding padded to a round number."""
    original = json.loads(file.read_text("utf-8"))
    vocabulary = dict(original["model"]["vocab"])
    types = dict.fromkeys(vocabulary, NORMAL)
    for added in original["added_tokens"]:
        vocabulary[added["content"]] = added["id"]
        types[added["content"]] = CONTROL if added["special"] else USER_DEFINED
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    padding = [f"[PAD{i}]" for i in range(len(tokens), 151936)]
    return lists(
        [*tokens, *padding],
        [types[token] for token in tokens] + [UNUSED] * len(padding),
        [" ".join(merge) for merge in original["model"]["merges"]],
    )


def test_qwen(qwen_folder: Path) -> None:
    file = qwen_folder / "tokenizer.json"
    original = tokenizers.Tokenizer.from_file(str(file))
    ours, _ = rebuilt(lists_of(file) | {"tokenizer.ggml.pre": "qwen2"})
    texts = [path.read_text("utf-8") for path in sorted(TEXTS.iterdir())]
    texts += [
        "e\u0301 <|im_start|>user\n<think>1234</think> 'LL it''s\r\n\n  x",
        "<tool_call>{}</tool_call>[PAD151700]",
    ]
    for text in texts:
        ids = original.encode(text).ids
        assert ours.encode(text).ids == ids
        for skip_special_tokens in (True, False):
            assert ours.decode(ids, skip_special_tokens) == original.decode(ids, skip_special_tokens)
    assert ours.get_vocab_size() == original.get_vocab_size()
    assert ours.decode([151700]) == ""


def splits(tokenizer: tokenizers.Tokenizer, text: str) -> list[str]:
    assert tokenizer.pre_tokenizer is not None
    return [piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(text)]


@pytest.mark.parametrize(
    ("pre", "expected"),
    [
        ("gpt-2", ["1234567", "a", "'s", "'", "LL"]),
        ("smollm", ["1", "2", "3", "4", "5", "6", "7", "a", "'s", "'", "LL"]),
        ("qwen2", ["1", "2", "3", "4", "5", "6", "7", "a", "'s", "'LL"]),
        ("llama-bpe", ["123", "456", "7", "a", "'s", "'LL"]),
    ],
)
def test_how_text_is_cut_before_it_is_merged(pre: str, expected: list[str]) -> None:
    assert splits(rebuilt(small(pre=pre))[0], "1234567a's'LL") == expected


@pytest.mark.parametrize(
    ("alias", "name"), [("default", "gpt-2"), ("llama3", "llama-bpe"), ("deepseek-r1-qwen", "qwen2")]
)
def test_names_that_mean_another(alias: str, name: str) -> None:
    assert rebuilt(small(pre=alias))[0].to_str() == rebuilt(small(pre=name))[0].to_str()


def test_a_qwen_file_need_not_name_its_pre_tokenizer() -> None:
    metadata = small() | {"general.architecture": "qwen2"}
    assert rebuilt(metadata)[0].to_str() == rebuilt(small(pre="qwen2"))[0].to_str()


@pytest.mark.parametrize(
    ("keys", "ids"),
    [
        ({"pre": "llama-bpe", "bos_token_id": 13}, [13, 12]),
        ({"pre": "llama-bpe", "bos_token_id": 13, "add_bos_token": False}, [12]),
        ({"pre": "llama-bpe"}, [12]),
        ({"pre": "gpt-2", "bos_token_id": 13}, [12]),
        ({"pre": "gpt-2", "bos_token_id": 13, "add_bos_token": True}, [13, 12]),
    ],
)
def test_a_beginning_token_is_added_where_the_file_says_so(keys: dict[str, Any], ids: list[int]) -> None:
    tokenizer, _ = rebuilt(small(**keys))
    assert tokenizer.encode("123").ids == ids
    assert tokenizer.encode("123", add_special_tokens=False).ids == [12]


def test_special_tokens_and_the_template_go_into_the_configuration() -> None:
    metadata = small(pre="gpt-2", bos_token_id=13, eos_token_id=14, unknown_token_id=0, padding_token_id=14)
    _, config = rebuilt(metadata | {"tokenizer.chat_template": "{{ messages }}"})
    assert config == {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "clean_up_tokenization_spaces": False,
        "bos_token": "<s>",
        "eos_token": "</s>",
        "unk_token": "0",
        "pad_token": "</s>",
        "chat_template": "{{ messages }}",
    }


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (small(model="t5", pre="gpt-2"), "kind t5"),
        (small(), "pre-tokenizer None is not supported"),
        (small(pre="gpt-2", tokens=[1, 2]), r"tokens is missing or no list of str"),
        (small(pre="gpt-2", token_type="x"), r"token_type is missing or no list of int"),
    ],
)
def test_what_cannot_be_rebuilt(metadata: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        rebuilt(metadata)
