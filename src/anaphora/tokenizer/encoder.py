"""Text → ids: the ``tokenizers`` library, or ``fastokens`` where it gives the same ids.

``fastokens`` is some fifty times faster, which matters when a prefix hit leaves a few milliseconds for everything. It
is trusted only after it has agreed with ``tokenizers`` on the probes below, at each load.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import tokenizers

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


def load_encoder(tokenizer: tokenizers.Tokenizer, file: Path) -> Encode:
    """The fastest encoder for ``file``, a ``tokenizer.json``, that agrees with ``tokenizer``, loaded from it."""

    def encode(text: str, add_special_tokens: bool) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    try:
        fast = _load_fastokens(file)
        for probe in (*_PROBES, *_added_token_probes(file)):
            for add_special_tokens in (False, True):
                if fast(probe, add_special_tokens) != encode(probe, add_special_tokens):
                    raise ValueError(f"other ids for {probe[:40]!r}")
    except ImportError:
        return encode
    except Exception as error:  # a foreign library's failure of any sort means the same: do not use it
        _log.info("fastokens is not used for %s: %s", file, error)
        return encode
    return fast


def _load_fastokens(file: Path) -> Encode:
    import fastokens  # only in the extra `engine`, and not for every Python

    tokenizer = fastokens.Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def encode(text: str, add_special_tokens: bool) -> list[int]:
        ids: list[int] = tokenizer.encode(text, add_special_tokens).ids
        return ids

    return encode


def _added_token_probes(file: Path) -> list[str]:
    """Texts around each added token: touching letters, spaces and each other."""
    added = json.loads(file.read_text("utf-8")).get("added_tokens") or ()
    contents = [token["content"] for token in added[:512]]
    return ["a".join(contents), " ".join(contents), "".join(contents), "\n".join(f"x {c} 1" for c in contents)]
