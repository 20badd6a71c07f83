"""A tokenizer on this machine that stands in for a target's own."""

from collections.abc import Sequence
from pathlib import Path

from anaphora.checkpoints import find_checkpoint
from anaphora.errors import ChatTemplateError
from anaphora.lab.targets.base import Message, Tool
from anaphora.lab.targets.system_role import has_system, without_system
from anaphora.tokenizer import Tokenizer


class LocalTokenizer:
    """See :class:`~anaphora.lab.targets.base.PromptTokenizer`; it always knows."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def of_model(cls, model: str) -> "LocalTokenizer":
        """The tokenizer of a model folder, or of a model that is found like one to be served."""
        folder = Path(model)
        return cls(Tokenizer.from_folder(folder if folder.is_dir() else find_checkpoint(model).path))

    async def count_text(self, text: str) -> int | None:
        return len(await self.text_token_ids(text))

    async def text_token_ids(self, text: str) -> list[int]:
        return self._tokenizer.encode(text, add_special_tokens=False)

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        try:
            return self._tokenizer.encode_chat(messages, tools=list(tools) or None)
        except ChatTemplateError:
            if not has_system(messages):
                raise
            return self._tokenizer.encode_chat(without_system(messages), tools=list(tools) or None)
