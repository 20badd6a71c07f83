"""Chats cut at special tokens and remembered message by message have the ids of the whole, or are not cut."""

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.models_for_tests import write_tiny_tokenizer
from tests.tokenizer.texts_for_tests import pieces, real_texts
from tokenizers import AddedToken, normalizers, pre_tokenizers

from anaphora.errors import RequestError
from anaphora.tokenizer import Tokenizer
from anaphora.tokenizer.borders import find_borders, pieces_between
from anaphora.tokenizer.encoder import probe_texts
from anaphora.tokenizer.remembering import MIN_CHARACTERS, RememberingEncoder
from anaphora.tokenizer.text_memory import ENTRY_BYTES, TextMemory
from anaphora.types import Namespace

ALICE, BOB = Namespace("alice"), Namespace("bob")
LONG = "It was the best of times, it was the worst of times. " * 20


class Counting:
    """An encoder of one id a character that counts what it is given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        self.texts.append(text)
        return [ord(character) for character in text]


def chat(*contents: str) -> str:
    return "".join(f"<|im_start|>user\n{content}<|im_end|>\n" for content in contents)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def remembering(counting: Counting) -> RememberingEncoder:
    return RememberingEncoder(counting, ("<|im_start|>", "<|im_end|>"), TextMemory(2**20))


def test_a_long_message_is_encoded_once_and_short_ones_with_what_surrounds_them(
    remembering: RememberingEncoder, counting: Counting
) -> None:
    for question in ("one", "two"):
        text = chat(LONG, question)
        assert remembering.encode(text, ALICE).tolist() == [ord(character) for character in text]
    assert counting.texts == [
        "<|im_start|>",
        f"user\n{LONG}",
        f"<|im_end|>\n{chat('one')}",
        "<|im_start|>",
        f"<|im_end|>\n{chat('two')}",
    ]


def test_what_one_tenant_sent_is_not_known_of_another(remembering: RememberingEncoder, counting: Counting) -> None:
    for owner in (ALICE, BOB):
        counting.texts.clear()
        remembering.encode(chat(LONG), owner)
        assert f"user\n{LONG}" in counting.texts


def test_ids_that_were_given_out_may_be_changed(remembering: RememberingEncoder) -> None:
    text = chat(LONG)
    remembering.encode(text, ALICE)[20] = 0
    assert remembering.encode(text, ALICE).tolist() == [ord(character) for character in text]


def test_a_text_without_borders_is_remembered_whole(remembering: RememberingEncoder, counting: Counting) -> None:
    for _ in range(2):
        remembering.encode(LONG, ALICE)
    assert [text for text in counting.texts if text] == [LONG]


def test_the_memory_is_bounded_and_the_least_recently_used_go_first(counting: Counting) -> None:
    texts = [f"{n} {LONG}" for n in range(4)]
    one = sys.getsizeof(texts[0]) + 4 * len(texts[0]) + ENTRY_BYTES
    memory = TextMemory(3 * one)
    remembering = RememberingEncoder(counting, ("<|im_end|>",), memory)
    for text in (*texts[:3], texts[0], texts[3]):
        remembering.encode(text, ALICE)
        assert memory.num_bytes <= 3 * one
    assert [memory.find(ALICE, text) is not None for text in texts] == [True, False, True, True]
    remembering.encode("x" * 4 * one, ALICE)  # more than all of it: kept by nobody
    assert memory.num_bytes == 3 * one


def test_threads_may_remember_at_once(counting: Counting) -> None:
    memory = TextMemory(50_000)
    remembering = RememberingEncoder(counting, ("|",), memory, min_characters=8)
    texts = [f"{n % 13:100}|{n % 7:300}|{n % 5}" for n in range(400)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda text: remembering.encode(text, ALICE).tolist(), texts))
    assert found == [[ord(character) for character in text] for text in texts]
    kept = [key[1] for key in memory._entries]
    assert memory.num_bytes == sum(sys.getsizeof(text) + 4 * len(text) + ENTRY_BYTES for text in kept) <= 50_000


@pytest.mark.parametrize(
    ("text", "min_characters", "found"),
    [
        ("", 1, []),
        ("ab", 1, ["ab"]),
        ("ab", 3, []),
        ("ab|cd", 2, ["ab", "cd"]),
        ("|ab||c[]de]", 1, ["ab", "c", "de]"]),
        ("[][]|", 1, []),
    ],
)
def test_pieces_stand_between_borders(text: str, min_characters: int, found: list[str]) -> None:
    assert [text[begin:end] for begin, end in pieces_between(text, ("|", "[]"), min_characters)] == found


# with real tokenizers


def everywhere(tokenizer: Tokenizer) -> RememberingEncoder:
    """Cuts wherever it may, and remembers all."""
    inner = tokenizer._remembering
    return RememberingEncoder(tokenizer._encode, inner.borders, TextMemory(2**22), min_characters=1)


def test_chats_of_all_three_are_cut_between_messages(each: Tokenizer) -> None:
    assert set(each._remembering.borders) == {"<|im_start|>", "<|im_end|>"}


def test_real_chats(each: Tokenizer) -> None:
    cut, texts = everywhere(each), real_texts()
    assert max(map(len, texts)) > MIN_CHARACTERS
    for system, question in zip(texts, reversed(texts), strict=True):
        messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
        text = each.apply_chat_template(messages)
        ids = each.encode_chat(messages)
        for owner in (ALICE, ALICE, BOB):
            assert cut.encode(text, owner).tolist() == each.encode_rendered(text, owner).tolist() == ids


borders = st.sampled_from(
    ["<|im_start|>", "<|im_end|>", "<|im_start|>user\n", "<|im_end|>\n", "<|im_end|> ", "<|<|im_end|>"]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(pieces | borders, max_size=14).map("".join))
@example(" <|im_end|> <|im_end|>\u0301<|im_start|>\u0301e")
def test_any_text(each: Tokenizer, text: str) -> None:
    cut = everywhere(each)
    for _ in range(2):
        assert cut.encode(text, ALICE).tolist() == each.encode(text, add_special_tokens=False)


def test_half_a_surrogate_pair_in_a_chat_is_the_callers_mistake(each: Tokenizer) -> None:
    for content in ("x\ud800y", f"x\ud800y{LONG}"):
        with pytest.raises(RequestError, match="no valid Unicode"):
            each.encode_rendered(chat(content), ALICE)


# tokenizers of other kinds


@pytest.fixture
def inner(tmp_path: Path) -> tokenizers.Tokenizer:
    """The tiny tokenizer as the library's own object, to be changed."""
    write_tiny_tokenizer(tmp_path)
    return tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))


TEMPLATE = "<|im_start|> <|im_end|> <s> [INST]"
BOTH = ("<|im_start|>", "<|im_end|>")


def equals_whole(inner: tokenizers.Tokenizer, found: tuple[str, ...]) -> bool:
    """Whether cutting at ``found`` changes no probe's ids."""
    encode = RememberingEncoder(
        lambda text, special: inner.encode(text, add_special_tokens=special).ids, found, TextMemory(0)
    )
    return encode.checked(probe_texts(inner)).borders == found


@pytest.mark.parametrize("scheme", ["always", "never"])
@pytest.mark.parametrize(
    "normalizer",
    [
        None,
        normalizers.NFC(),
        normalizers.NFKC(),
        normalizers.Prepend("\u2581"),
        normalizers.Lowercase(),
        normalizers.Strip(),
    ],
)
def test_a_normalizer_works_on_each_piece(inner: tokenizers.Tokenizer, normalizer: Any, scheme: Any) -> None:
    inner.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Metaspace(prepend_scheme=scheme), pre_tokenizers.ByteLevel(add_prefix_space=True)]
    )
    if normalizer is not None:
        inner.normalizer = normalizer
    assert find_borders(inner, TEMPLATE) == BOTH
    assert equals_whole(inner, BOTH)


def test_a_pre_tokenizer_that_treats_the_first_piece_otherwise_forbids_cutting(inner: tokenizers.Tokenizer) -> None:
    first = pre_tokenizers.Metaspace(prepend_scheme="first")
    inner.pre_tokenizer = pre_tokenizers.Sequence([first, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    assert find_borders(inner, TEMPLATE) == ()
    assert not equals_whole(inner, BOTH)  # and the probes would have told, too


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (AddedToken("<x>", special=True), BOTH),
        (AddedToken("<s>", special=True), (*BOTH, "<s>")),
        (AddedToken("<s>", special=True, lstrip=True), BOTH),
        (AddedToken("<s>", special=True, rstrip=True), BOTH),
        (AddedToken("<s>", special=True, normalized=True), BOTH),
        (AddedToken("<s>", special=False, normalized=False), BOTH),
        (AddedToken("<y>", special=False, single_word=True), ()),
        (AddedToken("a<|im_e", special=False, normalized=False), ("<|im_start|>",)),
        (AddedToken("<|im_end|>\n", special=False, normalized=False), ("<|im_start|>",)),
        (AddedToken("d|><|im_start|>x", special=False, normalized=False), ("<|im_end|>",)),
        (AddedToken("im_end", special=False, normalized=False), BOTH),
        (AddedToken("<|im", special=False, normalized=False), BOTH),
        (AddedToken("end|>x", special=False, normalized=False), BOTH),
        (AddedToken("a<|im_e", special=False, normalized=True), BOTH),
    ],
)
def test_only_tokens_that_are_found_wherever_they_stand_are_borders(
    inner: tokenizers.Tokenizer, token: AddedToken, expected: tuple[str, ...]
) -> None:
    (inner.add_special_tokens if token.special else inner.add_tokens)([token])
    found = find_borders(inner, TEMPLATE)
    assert found == expected
    assert equals_whole(inner, found)


def test_a_check_that_fails_leaves_texts_whole(counting: Counting) -> None:
    def untrue(text: str, special: bool) -> list[int]:
        return [1, *counting(text, special)]

    checked = RememberingEncoder(untrue, ("|",), TextMemory(2**20)).checked(["", "a|b"])
    assert checked.borders == ()
    assert checked.encode(f"{LONG}|b", ALICE).tolist() == untrue(f"{LONG}|b", False)
