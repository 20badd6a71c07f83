"""Text → ids: the ``tokenizers`` library, or ``fastokens`` where it gives the same ids.

``fastokens`` is some fifty times faster, which matters when a prefix hit leaves a few milliseconds for everything. It
is trusted only after it has agreed with ``tokenizers`` on the probes below, at each load.
"""

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

import tokenizers

from anaphora.errors import RequestError

Encode = Callable[[str, bool], list[int]]
"""``encode(text, add_special_tokens)``; safe to call from several threads."""

_log = logging.getLogger(__name__)

_PROBES = (
    "",
    " ",
    "\n",
    "Hello, world! It's 12345.67 o'clock; I'LL be there, won't I?",
    "  two  spaces   three\t\ttabs\r\n\r\n  \n end  ",
    "def f(x: int) -> str:\n    return f'{x:>8}'  # été\n\n\n",
    "你好，世界。人工智能 2024年",
    "العربية עברית ह\u093fन\u094dद\u0940",
    "한국어 日本語です Русский Ελληνικά",
    "e\u0301 \u00e9 \u212b \ufb01 \u1e9b\u0323 \uff21",  # composed and decomposed forms
    "\U0001f469\u200d\U0001f680\U0001f1e9\U0001f1ea\U0001f44d\U0001f3fd\ufe0f \u00b2\u00bd\u2167\u0967",
    "\x00\x01\x7f\u0085\u00a0\u2003\u2028\u3000\ufeff\ufffd",
    "<|im_start|>user\n<|im_end|><|im_start|><|endoftext|>< |im_end| ><|im_end",
    "a" * 300 + "1" * 50 + "!" * 40 + " " * 70 + "\n" * 30,
    'https://example.org/a_b?c=%20&d={e}#f \\n \\\\ "quoted" `code` $x^2$ <tag/>',
)
_MAX_ADDED_TOKENS_PROBED = 512
_MAX_JOINED = 16
"""Added tokens that have each of the probes between them."""


def load_encoder(tokenizer: tokenizers.Tokenizer, file: Path) -> Encode:
    """The fastest encoder for ``file``, a ``tokenizer.json``, that agrees with ``tokenizer``, loaded from it.

    The encoder raises :class:`RequestError` for what is no Unicode text.
    """

    def slow(text: str, add_special_tokens: bool) -> list[int]:
        try:
            return tokenizer.encode(text, add_special_tokens=add_special_tokens).ids
        except TypeError as error:
            raise RequestError("the text is no valid Unicode: it holds half of a surrogate pair") from error

    fast = _load_fastokens(file)
    if fast is None:
        return slow
    differing = _first_difference(fast, slow, probe_texts(tokenizer))
    if differing is not None:
        _log_refusal(file, f"other ids for {differing[:40]!r}")
        return slow

    def encode(text: str, add_special_tokens: bool) -> list[int]:
        ids = fast(text, add_special_tokens)
        return slow(text, add_special_tokens) if ids is None else ids

    return encode


_Try = Callable[[str, bool], list[int] | None]


def _load_fastokens(file: Path) -> _Try | None:
    """An encoder that answers ``None`` where it fails, or ``None`` where there is no fastokens for this file."""
    try:
        import fastokens  # only in the extra `engine`, and not for every Python

        tokenizer = fastokens.Tokenizer.from_file(str(file))
        tokenizer.no_truncation()
        tokenizer.no_padding()
    except ImportError:
        return None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic in its Rust is no Exception
        _log_refusal(file, error)
        return None

    def encode(text: str, add_special_tokens: bool) -> list[int] | None:
        try:
            ids: list[int] = tokenizer.encode(text, add_special_tokens).ids
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            return None
        return ids

    return encode


def _first_difference(fast: _Try, slow: Encode, texts: Iterable[str]) -> str | None:
    for text in texts:
        for add_special_tokens in (False, True):
            if fast(text, add_special_tokens) != slow(text, add_special_tokens):
                return text
    return None


def _log_refusal(file: Path, reason: object) -> None:
    _log.info("fastokens is not used for %s: %s", file, reason)


def probe_texts(tokenizer: tokenizers.Tokenizer) -> list[str]:
    """Texts that another way to encode is tried on: the probes above, and some around the added tokens, which touch
    letters, spaces and each other."""
    added = sorted(tokenizer.get_added_tokens_decoder().items())
    contents = [token.content for _, token in added[:_MAX_ADDED_TOKENS_PROBED]]
    return [
        *_PROBES,
        *(between.join(contents) for between in ("a", " ", "", "1", ".", " \u0301")),
        "\n".join(f"x {content} 1" for content in contents),
        *(probe.join(contents[:_MAX_JOINED]) for probe in _PROBES),
    ]
