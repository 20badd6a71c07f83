"""Values for ``cache_salt`` that every known server takes: vLLM refuses ``@``, ``/``, ``\\``, NUL, and more than 128
characters."""

import re

MAX_LENGTH = 128


def salt_of(*parts: object) -> str:
    """One salt of several parts; what some server refuses becomes a dash, and the latest parts are kept."""
    text = ".".join(str(part) for part in parts if part is not None)
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[-MAX_LENGTH:]
