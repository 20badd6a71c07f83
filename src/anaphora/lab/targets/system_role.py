"""Models whose chat template has no system message (Gemma 2, the first Mistral Instruct): what a prompt begins with
goes to the front of the user's message, as their makers advise, so that prompts still begin alike."""

from collections.abc import Sequence

from anaphora.lab.targets.base import Message

NOTE = "the model takes no system message: what would be one stands at the beginning of the user's"
SENTENCE = f"{NOTE[0].upper()}{NOTE[1:]}."
_SYSTEM = ("system", "developer")


def has_system(messages: Sequence[Message]) -> bool:
    """Whether one of them is a system message."""
    return any(message.get("role") in _SYSTEM for message in messages)


def without_system(messages: Sequence[Message]) -> list[Message]:
    """The same with what system messages say at the front of the user's message after them."""
    kept: list[Message] = []
    waiting: list[str] = []
    for message in messages:
        if message.get("role") in _SYSTEM:
            waiting.append(_text(message))
        elif waiting and message.get("role") == "user":
            kept.append({**message, "content": _joined(waiting, message.get("content"))})
            waiting = []
        else:
            kept.append(message)
    return [*kept, {"role": "user", "content": "\n\n".join(waiting)}] if waiting else kept


def _text(message: Message) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content)


def _joined(texts: Sequence[str], content: object) -> object:
    if isinstance(content, list):
        return [{"type": "text", "text": "\n\n".join([*texts, ""])}, *content]
    return "\n\n".join([*texts, str(content)])
