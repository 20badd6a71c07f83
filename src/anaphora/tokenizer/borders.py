"""Where a text may be cut so that its parts, encoded alone, have the ids of the whole.

A tokenizer first looks for its added tokens, and only then normalizes, splits and encodes what stands between them,
each piece for itself. So a text can be cut before and after an added token, if it is certain that the whole text would
have been cut there, too, and that no piece is treated otherwise for being the first.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import tokenizers

_BY_PIECE = frozenset(
    {
        "BertPreTokenizer",
        "ByteLevel",
        "CharDelimiterSplit",
        "Digits",
        "Metaspace",
        "Punctuation",
        "Sequence",
        "Split",
        "UnicodeScripts",
        "Whitespace",
        "WhitespaceSplit",
    }
)
"""Pre-tokenizers that do the same with a piece wherever it stands (``Metaspace`` does unless it is told otherwise)."""


def find_borders(tokenizer: tokenizers.Tokenizer, template: str) -> tuple[str, ...]:
    """The special tokens named in a chat ``template`` that texts may be cut at; none where that could change ids."""
    added = tokenizer.get_added_tokens_decoder().values()
    if any(token.single_word for token in added) or not _treats_pieces_alike(tokenizer.pre_tokenizer):
        return ()
    early = [token.content for token in added if not token.normalized]
    candidates = [token for token in added if token.special and token.content in template]
    return tuple(token.content for token in candidates if _is_plain(token) and _is_always_found(token.content, early))


def pieces_between(text: str, borders: Iterable[str], min_characters: int) -> Iterator[tuple[int, int]]:
    """Begin and end of each piece of ``text`` with no border in it that is at least so long, in order."""
    found = [(begin, begin + len(border)) for border in borders for begin in _occurrences(text, border)]
    begin = 0
    for border_begin, border_end in (*sorted(found), (len(text), len(text))):
        if border_begin - begin >= min_characters:
            yield begin, border_begin
        begin = border_end


def _occurrences(text: str, border: str) -> Iterator[int]:
    begin = text.find(border)
    while begin >= 0:
        yield begin
        begin = text.find(border, begin + len(border))


def _treats_pieces_alike(pre_tokenizer: Any) -> bool:
    if pre_tokenizer is None:
        return True
    return all(
        part["type"] in _BY_PIECE and part.get("prepend_scheme") != "first"
        for part in _parts(json.loads(pre_tokenizer.__getstate__()))
    )


def _parts(config: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield config
    for part in config.get("pretokenizers", ()):
        yield from _parts(part)


def _is_plain(token: tokenizers.AddedToken) -> bool:
    """Looked for before the text is normalized, and takes no space around it along."""
    takes_spaces = token.lstrip or token.rstrip or token.content != token.content.strip()
    return not token.normalized and not takes_spaces and token.content != ""


def _is_always_found(border: str, added: Iterable[str]) -> bool:
    """Whether no other token that is looked for with it can stand over its beginning: the leftmost one wins, of two
    that begin together the longest."""
    return not any(other != border and (border in other or _overlap(other, border)) for other in added)


def _overlap(first: str, second: str) -> bool:
    """Whether an end of ``first`` is a beginning of ``second``."""
    return any(first.endswith(second[:length]) for length in range(1, min(len(first), len(second))))
