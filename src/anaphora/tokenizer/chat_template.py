"""The checkpoint's chat template: where it stands, and how it is rendered.

The variables and the filters are those that templates are written for (``messages``, ``tools``, ``documents``,
``add_generation_prompt``, the special tokens by name; ``raise_exception``, ``strftime_now``, ``tojson``), so that the
text equals what the model was trained on. What a template may do is bounded in ``template_sandbox.py``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from anaphora.checkpoints import read_json_object
from anaphora.errors import ChatTemplateError, CheckpointError
from anaphora.tokenizer.template_sandbox import Render, compile_template

_RESERVED = frozenset({"messages", "tools", "add_generation_prompt"})


class ChatTemplate:
    """One checkpoint's templates: a default one and, with some checkpoints, one for chats with tools."""

    def __init__(self, sources: Mapping[str, str], special_tokens: Mapping[str, str]) -> None:
        self._special_tokens = dict(special_tokens)
        source = "\n".join(sources.values())
        named = [text for name, text in special_tokens.items() if name in source]
        self.source = "\n".join((source, *named))
        """What the templates are made of, with the text of the special tokens that they name."""
        self._templates = {name: _compiled_or_refused(source) for name, source in sources.items()}

    @classmethod
    def from_folder(cls, folder: Path, special_tokens: Mapping[str, str]) -> Self | None:
        """The template of the model in ``folder``, or ``None`` if it has none."""
        sources = _read_sources(folder)
        return cls(sources, special_tokens) if sources else None

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        tools: Sequence[Mapping[str, Any]] | None,
        add_generation_prompt: bool,
        extra: Mapping[str, Any],
    ) -> str:
        """The chat as text.

        ``extra``: further variables (``enable_thinking``, ``documents``, ...).

        Raises:
            ChatTemplateError: the template refused, failed, or broke a limit.
        """
        clash = sorted(_RESERVED & extra.keys())
        if clash:
            raise ChatTemplateError(f"{clash[0]} cannot be given as a template variable", param="chat_template_kwargs")
        plain = _PlainCopy()
        try:
            given = {**plain.of(extra), "tools": plain.of(tools), "messages": [plain.of_message(m) for m in messages]}
        except RecursionError:
            raise ChatTemplateError("the messages are nested too deeply", param="messages") from None
        own = {**self._special_tokens, "documents": None, "add_generation_prompt": add_generation_prompt}
        variables = own | given
        return self._template(has_tools=tools is not None)(variables, plain.num_characters)

    def _template(self, *, has_tools: bool) -> Render:
        if has_tools and "tool_use" in self._templates:
            return self._templates["tool_use"]
        if "default" not in self._templates:
            raise ChatTemplateError(f"the model's chat templates have no default: {sorted(self._templates)}")
        return self._templates["default"]


def why_no_chats(folder: Path) -> str | None:
    """Why the model in ``folder`` will refuse every chat; ``None`` if its template can at least be compiled."""
    sources = _read_sources(folder)
    if "default" not in sources:
        return "it has no chat template" + (f" named default, only {', '.join(sources)}" if sources else "")
    try:
        compile_template(sources["default"])
    except ChatTemplateError as error:
        return str(error)
    return None


def _compiled_or_refused(source: str) -> Render:
    """A template that cannot be compiled says so to each chat; everything else about the model still works."""
    try:
        return compile_template(source)
    except ChatTemplateError as error:
        message = str(error)

    def refuse(variables: dict[str, Any], input_size: int) -> str:
        raise ChatTemplateError(message, param="messages")

    return refuse


def _read_sources(folder: Path) -> dict[str, str]:
    """Template texts by name; a file of its own wins over the tokenizer's configuration."""
    sources: dict[str, str] = {}
    config = folder / "tokenizer_config.json"
    if config.exists():
        value = read_json_object(config).get("chat_template")
        if isinstance(value, str):
            sources["default"] = value
        elif isinstance(value, list):
            sources |= {
                t["name"]: t["template"]
                for t in value
                if isinstance(t, dict) and all(isinstance(t.get(key), str) for key in ("name", "template"))
            }
    file = folder / "chat_template.jinja"
    if file.exists():
        sources["default"] = _read_file(file)
    return sources | {f.stem: _read_file(f) for f in sorted((folder / "additional_chat_templates").glob("*.jinja"))}


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        raise CheckpointError(f"cannot read {file}: {reason}") from None


class _PlainCopy:
    """Copies made of plain JSON values (an object with methods has no business inside a template), and their size."""

    def __init__(self) -> None:
        self.num_characters = 0

    def of_message(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """A message without what is ``None``: templates test whether a key is there, and would print ``None``."""
        if not isinstance(message, Mapping):
            raise ChatTemplateError("each message must be an object with role and content", param="messages")
        return {str(key): self.of(value) for key, value in message.items() if value is not None}

    def of(self, value: Any) -> Any:
        """A copy of one value."""
        if type(value) is str:
            self.num_characters += len(value)
            return value
        if value is None or type(value) in (int, float, bool):
            return value
        if isinstance(value, Mapping):
            return {str(key): self.of(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.of(item) for item in value]
        raise ChatTemplateError(f"a chat may hold JSON values only, not {type(value).__name__}", param="messages")
