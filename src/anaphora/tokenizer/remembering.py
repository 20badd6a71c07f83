"""Chats → ids, long messages from memory: the whole cost of a long prompt that is cached is then to find its borders.

A chat template puts special tokens between messages, and no id ever spans one of them. So a message between two of them
has the same ids in every chat, and is encoded once.
"""

from array import array
from collections.abc import Iterable
from typing import Self

from anaphora.tokenizer.borders import pieces_between
from anaphora.tokenizer.encoder import Encode
from anaphora.tokenizer.text_memory import TextMemory
from anaphora.types import Namespace

MIN_CHARACTERS = 512
"""Shorter pieces are encoded with what stands around them: that takes no longer than to look them up."""
MAX_BYTES = 64 * 2**20
"""Of each process: some 250 texts of 30,000 tokens."""


class RememberingEncoder:
    """Encodes texts that a template has written. Without ``borders`` nothing is cut, and nothing remembered."""

    def __init__(
        self, encode: Encode, borders: Iterable[str], memory: TextMemory, *, min_characters: int = MIN_CHARACTERS
    ) -> None:
        self.memory = memory
        self.borders = tuple(borders)
        self._encode = encode
        self._min_characters = min_characters

    def encode(self, text: str, owner: Namespace) -> "array[int]":
        """The ids of ``text``, special tokens recognised and none added; pieces that ``owner`` sent before from memory.

        Raises:
            RequestError: ``text`` is no valid Unicode.
        """
        ids, done = array("I"), 0
        for begin, end in pieces_between(text, self.borders, self._min_characters) if self.borders else ():
            ids.fromlist(self._encode(text[done:begin], False))
            ids += self._remembered(text[begin:end], owner)
            done = end
        ids.fromlist(self._encode(text[done:], False))
        return ids

    def checked(self, texts: Iterable[str]) -> Self:
        """This encoder, or one without borders if it gives any of ``texts`` other ids when cut wherever possible."""
        every = RememberingEncoder(self._encode, self.borders, TextMemory(0), min_characters=1)
        if all(every.encode(text, Namespace("")).tolist() == self._encode(text, False) for text in texts):
            return self
        return type(self)(self._encode, (), self.memory)

    def _remembered(self, piece: str, owner: Namespace) -> "array[int]":
        ids = self.memory.find(owner, piece)
        if ids is None:
            ids = array("I", self._encode(piece, False))
            self.memory.keep(owner, piece, ids)
        return ids
