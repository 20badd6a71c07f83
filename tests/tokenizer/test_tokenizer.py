import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tokenizers
from tests.models_for_tests import write_tiny_tokenizer

from anaphora.errors import CheckpointError, RequestError
from anaphora.tokenizer import IncrementalDetokenizer, Tokenizer

TEXT = "What is the capital of France? \u00c9t\u00e9 \u4f60\u597d 12345 \U0001f680\n\n"


def test_text_comes_back(each: Tokenizer) -> None:
    ids = each.encode(TEXT)
    assert each.decode(ids) == TEXT
    assert b"".join(each.token_bytes(i) or b"" for i in ids) == TEXT.encode()


def test_special_tokens_in_a_text_are_one_id_and_are_not_shown(tiny: Tokenizer) -> None:
    ids = tiny.encode("<|im_start|>x<|im_end|>")
    assert ids[0] == 1
    assert ids[-1] == 2
    assert tiny.decode(ids) == "x"
    assert tiny.decode(ids, skip_special_tokens=False) == "<|im_start|>x<|im_end|>"


def test_names_and_sizes(tiny: Tokenizer, qwen: Tokenizer) -> None:
    assert (tiny.vocab_size, tiny.bos_token_id, tiny.eos_token_ids) == (400, 1, (2,))
    assert (qwen.vocab_size, qwen.bos_token_id, qwen.eos_token_ids) == (151669, None, (151645,))
    assert tiny.special_token_ids == {0, 1, 2}
    assert 151657 not in qwen.special_token_ids  # <tool_call> is never split, but it is text
    assert (tiny.has_chat_template, tiny.is_byte_level) == (True, True)


def test_one_token_alone(tiny: Tokenizer) -> None:
    (half, *_) = tiny.encode("\u00e9")
    assert tiny.token_text(half) == "\ufffd"
    assert tiny.token_bytes(half) == b"\xc3"
    assert tiny.token_text(2) == "<|im_end|>"
    assert tiny.token_bytes(2) == b"<|im_end|>"
    assert tiny.token_bytes(400) == tiny.token_bytes(-1) == b""
    assert tiny.decode([400]) == ""


def test_ids_that_end_a_generation_come_from_every_file(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 0}))
    (tmp_path / "generation_config.json").write_text(json.dumps({"eos_token_id": [2, 5]}))
    assert Tokenizer.from_folder(tmp_path).eos_token_ids == (2, 0, 5)


def test_older_files_name_special_tokens_apart(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": {"content": "<|im_end|>"}}))
    (tmp_path / "special_tokens_map.json").write_text(
        json.dumps({"eos_token": "<|endoftext|>", "bos_token": {"content": "<|im_start|>"}, "pad_token": 3})
    )
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert (tokenizer.bos_token_id, tokenizer.eos_token_ids) == (1, (2,))
    (tmp_path / "tokenizer_config.json").unlink()
    assert Tokenizer.from_folder(tmp_path).eos_token_ids == (0,)


def test_a_token_around_every_text_is_added_only_when_asked(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner.post_processor = tokenizers.processors.TemplateProcessing(
        single="<|im_start|> $A", pair="<|im_start|> $A <|im_start|> $B:1", special_tokens=[("<|im_start|>", 1)]
    )
    inner.enable_truncation(3)  # a checkpoint's training settings have no say here
    inner.enable_padding(length=8)
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    plain = tokenizer.encode(TEXT, add_special_tokens=False)
    assert len(plain) > 8
    assert tokenizer.encode(TEXT) == [1, *plain]
    chat = tokenizer.encode_chat([{"role": "user", "content": "x"}])
    assert chat.count(1) == 2  # those of the template, and none more


def test_a_vocabulary_that_is_not_one_of_bytes_has_no_token_bytes(tmp_path: Path) -> None:
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 5}, unk_token="a"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert (tokenizer.vocab_size, tokenizer.is_byte_level, tokenizer.token_bytes(5)) == (6, False, None)
    assert tokenizer.encode("b a") == [5, 0]
    with pytest.raises(RequestError, match="this model has no chat template"):
        tokenizer.apply_chat_template([{"role": "user", "content": "x"}])


def test_an_added_token_with_a_space_stands_for_its_own_text(tmp_path: Path) -> None:
    write_tiny_tokenizer(tmp_path)
    inner = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    inner.add_tokens([tokenizers.AddedToken("<two words>", normalized=False)])
    inner.save(str(tmp_path / "tokenizer.json"))
    tokenizer = Tokenizer.from_folder(tmp_path)
    assert tokenizer.encode("<two words>") == [400]
    assert tokenizer.token_bytes(400) == b"<two words>"
    assert tokenizer.decode([400]) == IncrementalDetokenizer(tokenizer, []).append([400]) == "<two words>"


def test_half_a_surrogate_pair_is_the_callers_mistake(each: Tokenizer) -> None:
    with pytest.raises(RequestError, match="no valid Unicode"):
        each.encode("x\ud800y")


def test_threads_may_encode_and_render_at_once(each: Tokenizer) -> None:
    texts = [f"{n} {TEXT * (n % 7)} {n}" for n in range(64)]
    expected = [each.encode_chat([{"role": "user", "content": text}]) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            found = list(pool.map(lambda text: each.encode_chat([{"role": "user", "content": text}]), texts))
            assert found == expected


@pytest.mark.parametrize("content", [None, "", "{", "{}", '{"model": 3}'])
def test_a_missing_or_damaged_file_is_named(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(CheckpointError, match=r"tokenizer\.json is (missing|damaged)"):
        Tokenizer.from_folder(tmp_path)
