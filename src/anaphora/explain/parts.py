"""A request as the row of texts that a prefix cache sees, first things first."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_SETTINGS = ("model", "cache_salt", "reasoning_effort", "chat_template_kwargs")
"""Fields that keep requests apart or change how all the rest is rendered."""


@dataclass(frozen=True, slots=True)
class Part:
    """One text of a request. ``path``: where it stands in the body, for people."""

    path: str
    text: str

    @property
    def is_tool(self) -> bool:
        return self.path.startswith("tools[")

    @property
    def is_setting(self) -> bool:
        return self.path in _SETTINGS


def parts_of(body: Mapping[str, Any]) -> tuple[Part, ...]:
    """Settings, leading system messages, tools, then the other messages: the order in which most templates render.

    A template may put the tools elsewhere; the order among the tools and among the messages is the same in all.
    """
    messages = [message for message in body.get("messages") or () if isinstance(message, Mapping)]
    roles = [message.get("role") for message in messages]
    num_leading = next((i for i, role in enumerate(roles) if role not in ("system", "developer")), len(roles))
    texts = [Part(f"messages[{i}] ({roles[i]})", _content(message)) for i, message in enumerate(messages)]
    settings = [Part(name, _dump(body[name])) for name in _SETTINGS if body.get(name) is not None]
    tools = [Part(f"tools[{i}]", _dump(tool)) for i, tool in enumerate(body.get("tools") or ())]
    prompt = [Part("prompt", _text(body["prompt"]))] if body.get("prompt") else []
    return (*settings, *texts[:num_leading], *tools, *texts[num_leading:], *prompt)


def shared_length(one: str, other: str) -> int:
    """How many characters two texts have in common at their beginning, found by comparing ever shorter stretches."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _content(message: Mapping[str, Any]) -> str:
    """Everything of a message that a template can render, in the order in which it was sent."""
    content = message.get("content")
    rest = {name: value for name, value in message.items() if name not in ("role", "content") and value}
    text = "" if content is None else _text(content)
    return text if not rest else f"{text}{_dump(rest)}"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else _dump(value)


def _dump(value: Any) -> str:
    """JSON with the keys as they came: their order is part of the prompt."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
