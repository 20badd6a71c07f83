"""Chats that belong to named groups, as an experiment sends them."""

import json
from dataclasses import dataclass

from anaphora.lab.targets.base import Message, Tool


@dataclass(frozen=True, slots=True)
class Chat:
    """One request of a group; the requests of a group share a beginning, or are meant not to."""

    group: str
    messages: tuple[Message, ...]
    max_tokens: int
    tools: tuple[Tool, ...] = ()

    def text(self) -> str:
        """All that its prompt is made of, for counting."""
        parts = [str(message.get("content") or "") for message in self.messages]
        return "\n".join((*parts, json.dumps(self.tools) if self.tools else ""))
