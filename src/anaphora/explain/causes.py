"""Why two texts differ at a place: named causes, each with its cure. The first that fits is the cause."""

import json
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_CONTEXT = 200


@dataclass(frozen=True, slots=True)
class Cause:
    """``name`` and ``cure`` for people. ``is_natural``: prompts are meant to differ so; nothing is lost by it."""

    name: str
    cure: str
    is_natural: bool = False


QUESTION = Cause("another last message", "nothing: this is what the request asks", is_natural=True)
NOTHING = Cause("nothing: the same request again", "nothing", is_natural=True)
CONTINUED = Cause("the conversation goes on", "nothing: the beginning is shared whole", is_natural=True)
OTHER_KIND = Cause("a chat and a text completion", "nothing: they are other requests", is_natural=True)
OTHER_TEXT = Cause("other words", "put what all requests share first, and what differs after it")
HISTORY = Cause(
    "an earlier message was changed or left out",
    "append to a conversation and do not edit or trim its beginning; trim rarely, and then much at once",
)
_MOVE = "move it behind everything that stays the same, best into the last message"
_VOLATILE = (
    (
        "date and time",
        re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}[T ,]+\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?"),
        f"{_MOVE}, or give the date alone",
    ),
    (
        "date",
        re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[./]\d{1,2}[./]\d{4}"),
        f"{_MOVE}; it changes daily",
    ),
    ("time of day", re.compile(r"\b\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp][Mm])?\b"), _MOVE),
    (
        "UUID",
        re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),
        f"leave it out of the prompt, or {_MOVE}",
    ),
    ("number", re.compile(r"\d+(?:[.,]\d+)*"), f"if it changes with every request, {_MOVE}"),
    (
        "identifier",
        re.compile(r"\b(?=[\w-]*\d)[\w-]{5,}\b"),
        f"if it changes with every request, leave it out of the prompt, or {_MOVE}",
    ),
)
WHITESPACE = Cause("white space or line ends", "render the text in one way: the same spaces and line ends every time")
UNICODE = Cause("another Unicode form of the same text", "normalise texts (NFC) before they go into a prompt")
CASE = Cause("upper and lower case", "write the text in one way every time")
KEY_ORDER = Cause("the same JSON in another order of keys", "serialise with sorted keys")
TOOL_ORDER = Cause("same tools, other order", "sort the tools by name before every request")
SETTINGS = {
    "model": Cause("another model", "nothing, if it is meant: models share no cache", is_natural=True),
    "cache_salt": Cause("another cache_salt", "give requests that may share the same salt, one a tenant"),
    "reasoning_effort": Cause(
        "another reasoning effort", "keep it the same within a conversation: most templates render it at the beginning"
    ),
    "chat_template_kwargs": Cause("other template settings", "keep them the same within a conversation"),
}


def cause_in_text(one: str, other: str, at: int) -> Cause:
    """Why two texts with the same first ``at`` characters go on differently."""
    for name, pattern, cure in _VOLATILE:
        mine, theirs = _around(pattern, one, at), _around(pattern, other, at)
        if mine is not None and theirs is not None and mine != theirs:
            return Cause(name, cure)
    a, b = one[at : at + _CONTEXT], other[at : at + _CONTEXT]
    alike: Sequence[tuple[Callable[[str], str], Cause]] = (
        (lambda text: "".join(text.split()), WHITESPACE),
        (lambda text: unicodedata.normalize("NFC", text), UNICODE),
        (str.casefold, CASE),
    )
    for normal, cause in alike:
        shorter = min(len(normal(a)), len(normal(b)))
        if shorter > 0 and normal(a)[:shorter] == normal(b)[:shorter]:
            return cause
    return KEY_ORDER if _same_json(one, other) else OTHER_TEXT


def cause_in_tools(one: Sequence[str], other: Sequence[str]) -> Cause:
    """Why two lists of tools, each as JSON text, differ."""
    if sorted(one) == sorted(other):
        return TOOL_ORDER
    mine, theirs = [_name(tool) for tool in one], [_name(tool) for tool in other]
    missing = [name for name in theirs if name not in mine]
    added = [name for name in mine if name not in theirs]
    if missing or added:
        said = [f"{', '.join(missing)} missing"] if missing else []
        said += [f"{', '.join(added)} added"] if added else []
        return Cause(
            f"other tools ({'; '.join(said)})",
            "send the same tools with every request of a kind; forbid some by tool_choice instead of leaving them out",
        )
    if all(_same_json(a, b) for a, b in zip(sorted(one), sorted(other), strict=True)):
        return KEY_ORDER
    changed = next(name for name, a, b in zip(mine, one, other, strict=False) if a != b)
    return Cause(f"another definition of the tool {changed}", "keep what a tool says of itself free of what changes")


def _around(pattern: re.Pattern[str], text: str, at: int) -> str | None:
    """The match that the place ``at`` lies in or touches."""
    begin = max(0, at - _CONTEXT)
    for match in pattern.finditer(text, begin, at + _CONTEXT):
        if match.start() <= at <= match.end():
            return match.group()
    return None


def _same_json(one: str, other: str) -> bool:
    try:
        return bool(json.loads(one) == json.loads(other))
    except ValueError:
        return False


def _name(tool: str) -> str:
    try:
        value = json.loads(tool)
    except ValueError:
        return tool
    function = value.get("function", value) if isinstance(value, dict) else {}
    return str(function.get("name", "?")) if isinstance(function, dict) else "?"
