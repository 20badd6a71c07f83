"""The target's own tokenizer, where it lets others use it."""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.dialects.row import Tokenizing
from anaphora.lab.targets.base import Message, Tool
from anaphora.lab.targets.body import Body
from anaphora.lab.targets.system_role import without_system

_PATH = "/tokenize"
Post = Callable[[str, bytes], Awaitable[Body]]
"""Sends a body to a path below the server's root."""


class ServerTokenizer:
    """Asks ``/tokenize`` as the server's kind wants it. Once it has not answered it is not asked again."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._is_there = True

    async def text_ids(self, way: Tokenizing, model: str, text: str) -> list[int] | None:
        """Token ids of a bare text; ``None``: the server does not tokenise for others."""
        return await self._ids({"model": model, way.text: text, way.special: False})

    async def chat_ids(
        self, way: Tokenizing, model: str, messages: Sequence[Message], tools: Sequence[Tool]
    ) -> list[int] | None:
        """Token ids of a chat as the server renders it; ``None``: it does not say."""
        rendered = await self._rendered(way, model, messages, tools)
        if way.template_path is None:
            return self._as_ids(rendered)
        return None if not rendered else await self._ids({"model": model, way.text: rendered, way.special: True})

    async def takes_system(self, way: Tokenizing, model: str) -> bool:
        """Whether chats with a system message are rendered, or none are: no chat is asked for an answer."""
        chat = ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})
        if await self._rendered(way, model, chat, ()):
            return True
        return not await self._rendered(way, model, without_system(chat), ())

    async def _rendered(self, way: Tokenizing, model: str, messages: Sequence[Message], tools: Sequence[Tool]) -> Any:
        """The chat as text or, where the server gives them at once, as token ids."""
        chat = {"model": model, "messages": list(messages), **({"tools": list(tools)} if tools else {})}
        if way.template_path is None:
            return await self._ask(_PATH, {**chat, "add_generation_prompt": True}, "tokens")
        return await self._ask(way.template_path, chat, "prompt")

    async def _ids(self, request: Mapping[str, Any]) -> list[int] | None:
        return self._as_ids(await self._ask(_PATH, request, "tokens"))

    def _as_ids(self, tokens: Any) -> list[int] | None:
        if not tokens or not all(isinstance(token, int) for token in tokens):
            self._is_there = False  # absent, or another kind's, which wants another field and answers with no tokens
            return None
        return list(tokens)

    async def _ask(self, path: str, request: Mapping[str, Any], wanted: str) -> Any:
        """One field of the answer; ``None`` without one."""
        if not self._is_there:
            return None
        answer = await self._post(path, json.dumps(request, ensure_ascii=False).encode())
        try:
            return answer.json().get(wanted) if answer.status == 200 else None
        except (TargetError, AttributeError):
            return None
