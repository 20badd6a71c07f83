"""Joined pieces equal the decoding of the whole, whatever the ids; nothing is ever half a character."""

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st

from anaphora.tokenizer import IncrementalDetokenizer, Tokenizer

TEXT = "na\u00efve caf\u00e9 \u4f60\u597d\uff01 \U0001f469\u200d\U0001f680 <|im_end|> done"


def pieces_of(tokenizer: Tokenizer, ids: list[int], *, prompt: list[int] | None = None, **options: bool) -> list[str]:
    detokenizer = IncrementalDetokenizer(tokenizer, prompt or [], **options)
    return [*[detokenizer.append([i]) for i in ids], detokenizer.flush()]


def test_characters_arrive_whole_and_as_soon_as_they_are(tiny: Tokenizer) -> None:
    ids = tiny.encode("a\u00e9\u4f60b")  # one byte a token here
    assert pieces_of(tiny, ids) == ["a", "", "\u00e9", "", "", "\u4f60", "b", ""]


def test_special_tokens_are_left_out_unless_asked_for(each: Tokenizer) -> None:
    ids = each.encode(TEXT)
    assert "".join(pieces_of(each, ids)) == each.decode(ids) == TEXT.replace("<|im_end|>", "")
    assert "".join(pieces_of(each, ids, skip_special_tokens=False)) == TEXT


def test_several_tokens_at_once_are_the_same_as_one_by_one(each: Tokenizer) -> None:
    ids = each.encode(TEXT)
    for size in (2, 3, 5, len(ids)):
        detokenizer = IncrementalDetokenizer(each, [])
        parts = [detokenizer.append(ids[i : i + size]) for i in range(0, len(ids), size)]
        assert "".join(parts) + detokenizer.flush() == each.decode(ids)


def test_an_unfinished_character_ends_as_a_replacement(tiny: Tokenizer) -> None:
    ids = tiny.encode("a\U0001f680")
    assert pieces_of(tiny, ids[:-1]) == ["a", "", "", "", "\ufffd"]
    assert "".join(pieces_of(tiny, ids[:-1])) == tiny.decode(ids[:-1])


def test_a_generation_completes_the_character_that_its_prompt_began(tiny: Tokenizer) -> None:
    ids = tiny.encode("x\u4f60!")
    assert pieces_of(tiny, ids[2:], prompt=ids[:2]) == ["", "\u4f60", "!", ""]
    assert pieces_of(tiny, ids[4:], prompt=ids[:4]) == ["!", ""]


def test_ids_beyond_the_vocabulary_stand_for_nothing(each: Tokenizer) -> None:
    assert pieces_of(each, [each.vocab_size, *each.encode("ab"), each.vocab_size + 300])[0] == ""
    assert "".join(pieces_of(each, [each.vocab_size, *each.encode("ab")])) == "ab"


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_ids(each: Tokenizer, data: st.DataObject) -> None:
    skip = data.draw(st.booleans())
    some_bytes = st.sampled_from([i for i in range(600) if len(each.token_bytes(i) or b"") == 1])
    ids = data.draw(st.lists(st.integers(0, each.vocab_size - 1) | some_bytes, max_size=40))
    pieces = pieces_of(each, ids, skip_special_tokens=skip)
    assert "".join(pieces) == each.decode(ids, skip_special_tokens=skip)


@pytest.fixture(scope="module")
def spelling(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("spelling")
    words = [
        "<unk>",
        "<s>",
        "\u2581the",
        "\u2581cat",
        "s",
        "\u2581",
        "\u4f60",
        *[f"<0x{b:02X}>" for b in range(256)],
    ]
    inner = tokenizers.Tokenizer(
        tokenizers.models.BPE({word: i for i, word in enumerate(words)}, [], unk_token="<unk>", byte_fallback=True)
    )
    inner.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("\u2581", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    inner.add_special_tokens(["<s>"])
    inner.save(str(folder / "tokenizer.json"))
    return Tokenizer.from_folder(folder)


class TestOtherVocabularies:
    """A SentencePiece-like one: spaces belong to words, and rare characters are spelt in bytes."""

    def test_only_the_first_word_loses_its_space(self, spelling: Tokenizer) -> None:
        assert pieces_of(spelling, [2, 3, 4, 2]) == ["the", " cat", "s", " the", ""]
        assert pieces_of(spelling, [3, 4], prompt=[1, 2]) == [" cat", "s", ""]

    def test_characters_spelt_in_bytes_arrive_whole(self, spelling: Tokenizer) -> None:
        spelt = [7 + byte for byte in "\u00e9".encode()]
        assert pieces_of(spelling, [2, *spelt, 6]) == ["the", "", "\u00e9", "\u4f60", ""]
        assert pieces_of(spelling, [2, spelt[0]]) == ["the", "", "\ufffd"]

    def test_what_never_becomes_a_character_is_not_held_for_ever(self, spelling: Tokenizer) -> None:
        pieces = pieces_of(spelling, [7 + 0xFF] * 40)
        assert pieces[:16] == [*[""] * 15, "\ufffd" * 16]
        assert "".join(pieces) == "\ufffd" * 40

    @settings(max_examples=100, deadline=None)
    @given(text=st.text(st.sampled_from("the cat\u4f60\u00e9\U0001f680s "), max_size=30))
    def test_any_text(self, spelling: Tokenizer, text: str) -> None:
        ids = [i for word in text.split(" ") for i in self.spell(word)]
        assert "".join(pieces_of(spelling, ids)) == spelling.decode(ids)

    @staticmethod
    def spell(word: str) -> list[int]:
        return [5, *[7 + byte for byte in word.encode()]]
