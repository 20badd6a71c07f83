"""The first difference of two requests: where it is, what stands there, why, and how much comes after it in vain."""

from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.explain.causes import (
    CONTINUED,
    HISTORY,
    NOTHING,
    OTHER_KIND,
    QUESTION,
    SETTINGS,
    Cause,
    cause_in_text,
    cause_in_tools,
)
from anaphora.explain.parts import Part, shared_length

_WINDOW = 40
_END = Part("(end)", "")


@dataclass(frozen=True, slots=True)
class Divergence:
    """``at``: characters of the part at ``path`` that are still the same. ``windows``: what stands around that place in
    the earlier request and in this one. ``num_shared`` of this request's ``num_chars`` characters come before it."""

    path: str
    at: int
    windows: tuple[str, str]
    num_shared: int
    num_chars: int
    cause: Cause


def divergence(earlier: Sequence[Part], later: Sequence[Part]) -> Divergence:
    """Where ``later`` leaves ``earlier``."""
    number = next(
        (i for i, (a, b) in enumerate(zip(earlier, later, strict=False)) if a != b), min(len(earlier), len(later))
    )
    before = sum(len(part.text) for part in later[:number])
    num_chars = sum(len(part.text) for part in later)
    old = earlier[number] if number < len(earlier) else _END
    new = later[number] if number < len(later) else _END
    place = old if old.is_tool and not new.is_tool else new
    at = shared_length(old.text, new.text) if old.path == new.path else 0
    cause = _cause(earlier, later, number, old, new, at)
    windows = _window(old.text, at), _window(new.text, at)
    return Divergence(place.path, at, windows, before + at, num_chars, cause)


def _cause(earlier: Sequence[Part], later: Sequence[Part], number: int, old: Part, new: Part, at: int) -> Cause:
    if old is _END or new is _END:
        return NOTHING if old is new else CONTINUED if old is _END else HISTORY
    if old.is_setting or new.is_setting:
        return SETTINGS[old.path if old.is_setting else new.path]
    if old.is_tool or new.is_tool:
        return cause_in_tools([p.text for p in later if p.is_tool], [p.text for p in earlier if p.is_tool])
    if old.path != new.path and "prompt" in (old.path, new.path):
        return OTHER_KIND
    is_last = number == len(later) - 1 or number == len(earlier) - 1
    if is_last and "(user)" in new.path and "(user)" in old.path:
        return QUESTION
    if old.path != new.path:
        return HISTORY
    found = cause_in_text(old.text, new.text, at)
    is_history = number > 0 and not new.path.endswith(("(system)", "(developer)")) and new.path != "prompt"
    return HISTORY if is_history and found.name == "other words" else found


def _window(text: str, at: int) -> str:
    return text[max(0, at - _WINDOW) : at + _WINDOW]
