"""The fast encoder gives the same ids as the reference, or is not used."""

import logging
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.tokenizer.texts_for_tests import pieces, real_texts

from anaphora.tokenizer import Tokenizer
from anaphora.tokenizer.encoder import Encode, load_encoder

fastokens = pytest.importorskip("fastokens")


@pytest.fixture(scope="session")
def reference(each: Tokenizer) -> tokenizers.Tokenizer:
    return each._tokenizer


@pytest.fixture(scope="session")
def fast(each: Tokenizer) -> Encode:
    return each._encode


def test_it_is_in_use_for_all_three(each: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    assert each._encode.__qualname__ == "load_encoder.<locals>.encode"
    assert caplog.text == ""


def test_real_texts_and_chats(each: Tokenizer, fast: Encode, reference: tokenizers.Tokenizer) -> None:
    for text in real_texts():
        chat = each.apply_chat_template([{"role": "user", "content": text}])
        for written in (text, chat):
            assert fast(written, False) == reference.encode(written, add_special_tokens=False).ids


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces, max_size=12).map("".join))
@example("a" * 5000)
@example("\u0301" * 2000)
@example((" " * 100 + "\n") * 20)
@example("1" * 3000 + "!" * 3000)
def test_any_text(fast: Encode, reference: tokenizers.Tokenizer, text: str) -> None:
    for add_special_tokens in (False, True):
        assert fast(text, add_special_tokens) == reference.encode(text, add_special_tokens=add_special_tokens).ids


class Untrue:
    """A tokenizer that is right except for texts in ``wrong``."""

    wrong: dict[str, Any] = {}  # noqa: RUF012 (set by the tests)

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner

    @classmethod
    def from_file(cls, path: str) -> "Untrue":
        if "from_file" in cls.wrong:
            raise cls.wrong["from_file"]
        return cls(tokenizers.Tokenizer.from_file(path))

    def no_truncation(self) -> None: ...

    def no_padding(self) -> None: ...

    def encode(self, text: str, add_special_tokens: bool) -> Any:
        answer = self.wrong.get(text)
        if isinstance(answer, BaseException):
            raise answer
        return answer or self._inner.encode(text, add_special_tokens=add_special_tokens)


class Panic(BaseException):
    """As a panic in Rust arrives in Python."""


@pytest.fixture
def load(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> Any:
    """Loads the tiny tokenizer's encoder with a fastokens that is wrong where told to."""
    file = tiny_folder / "tokenizer.json"
    reference = tokenizers.Tokenizer.from_file(str(file))
    caplog.set_level(logging.INFO)

    def load(**wrong: Any) -> tuple[Encode, tokenizers.Tokenizer]:
        untrue = type("Tokenizer", (Untrue,), {"wrong": wrong})
        monkeypatch.setitem(sys.modules, "fastokens", types.SimpleNamespace(Tokenizer=untrue))
        return load_encoder(reference, file), reference

    return load


@pytest.mark.parametrize("failure", [ValueError("no"), Panic("no"), types.SimpleNamespace(ids=[3, 3])])
def test_one_that_fails_a_probe_is_not_used(load: Any, caplog: pytest.LogCaptureFixture, failure: Any) -> None:
    encode, reference = load(**{"\n": failure, "x": types.SimpleNamespace(ids=[1])})
    assert encode("x", False) == reference.encode("x").ids
    assert caplog.messages[0].endswith(r"other ids for '\n'")


@pytest.mark.parametrize("failure", [ValueError("odd file"), Panic("odd file")])
def test_one_that_cannot_read_the_file_is_not_used(load: Any, caplog: pytest.LogCaptureFixture, failure: Any) -> None:
    encode, reference = load(from_file=failure)
    assert encode("x", False) == reference.encode("x").ids
    assert caplog.messages[0].endswith("odd file")


@pytest.mark.parametrize("failure", [ValueError("no"), Panic("no")])
def test_one_that_fails_later_is_passed_over_for_that_text(load: Any, failure: Any) -> None:
    encode, reference = load(odd=failure)
    assert encode("odd", False) == reference.encode("odd").ids


def test_an_interruption_is_none_of_its_failures(load: Any) -> None:
    encode, _ = load(odd=KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        encode("odd", False)
    with pytest.raises(KeyboardInterrupt):
        load(from_file=KeyboardInterrupt())


def test_without_the_package_the_reference_encodes(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastokens", None)
    assert Tokenizer.from_folder(tiny_folder).encode("Hello") == Tokenizer.from_folder(tiny_folder).encode("Hello")
    reference = tokenizers.Tokenizer.from_file(str(tiny_folder / "tokenizer.json"))
    assert load_encoder(reference, tiny_folder / "tokenizer.json").__qualname__ == "load_encoder.<locals>.slow"
