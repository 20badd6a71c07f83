"""Ids → text while a generation runs: a piece at a time, never half a character.

With a byte-level vocabulary each token is a few bytes, and an incremental UTF-8 decoder holds back an unfinished
character by itself: constant work per token. Other vocabularies (SentencePiece's) give text only in context, so a
short window of the last tokens is decoded with and without the new ones, and the difference is the new text.
"""

import codecs
from collections.abc import Sequence
from typing import Protocol

from anaphora.tokenizer.tokenizer import Tokenizer

_CONTEXT_TOKENS = 6
"""Prompt tokens that a generation's first token is decoded after."""
_MAX_HELD_TOKENS = 16
"""A character has at most four bytes: what is unfinished after so many tokens will never be finished."""


class _Decoder(Protocol):
    def append(self, token_ids: Sequence[int]) -> str: ...

    def flush(self) -> str: ...


class IncrementalDetokenizer:
    """Text of one generation. The pieces, joined, equal ``tokenizer.decode`` of all ids.

    ``prompt_token_ids`` only set the context: none of their text is returned.
    """

    def __init__(
        self, tokenizer: Tokenizer, prompt_token_ids: Sequence[int], *, skip_special_tokens: bool = True
    ) -> None:
        context = prompt_token_ids[-_CONTEXT_TOKENS:]
        decoder = _ByteDecoder if tokenizer.is_byte_level else _WindowDecoder
        self._decoder: _Decoder = decoder(tokenizer, context, skip_special_tokens)

    def append(self, token_ids: Sequence[int]) -> str:
        """Take in new ids; the text that has become certain by them."""
        return self._decoder.append(token_ids)

    def flush(self) -> str:
        """What is still held back, with U+FFFD for bytes that never became a character. Ends the generation."""
        return self._decoder.flush()


class _ByteDecoder:
    def __init__(self, tokenizer: Tokenizer, context: Sequence[int], skip_special_tokens: bool) -> None:
        self._token_bytes = tokenizer.token_bytes
        self._skipped = tokenizer.special_token_ids if skip_special_tokens else frozenset()
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.append(context)  # a prompt may end inside a character, which the generation then completes

    def append(self, token_ids: Sequence[int]) -> str:
        data = b"".join([self._token_bytes(i) or b"" for i in token_ids if i not in self._skipped])
        return self._utf8.decode(data)

    def flush(self) -> str:
        return self._utf8.decode(b"", final=True)


class _WindowDecoder:
    """``_ids[:_done]`` is context whose text is out; ``_ids[_done:]`` is held back."""

    def __init__(self, tokenizer: Tokenizer, context: Sequence[int], skip_special_tokens: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_special_tokens = skip_special_tokens
        self._ids = list(context)
        self._done = len(self._ids)

    def append(self, token_ids: Sequence[int]) -> str:
        return "".join([self._append_one(i) for i in token_ids])

    def flush(self) -> str:
        return self._take(self._new_text())

    def _append_one(self, token_id: int) -> str:
        self._ids.append(token_id)
        text = self._new_text()
        if text.endswith("\ufffd") and len(self._ids) - self._done < _MAX_HELD_TOKENS:
            return ""
        return self._take(text) if text else ""

    def _new_text(self) -> str:
        return self._decode(self._ids)[len(self._decode(self._ids[: self._done])) :]

    def _take(self, text: str) -> str:
        self._ids = self._ids[self._done :]
        self._done = len(self._ids)
        return text

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=self._skip_special_tokens)
