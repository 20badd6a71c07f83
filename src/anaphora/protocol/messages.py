"""Chat messages, and the plain dictionaries with text in ``content`` that chat templates expect.

Content parts are joined, ``developer`` becomes ``system`` (templates drop a role they do not know, silently), and the
arguments of earlier tool calls, JSON text on the wire, become objects.
"""

import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

PART_SEPARATOR = "\n"
"""Between the text parts of one message, as vLLM and llama.cpp join them."""

Role = Literal["system", "developer", "user", "assistant", "tool", "function"]
_MAY_LACK_CONTENT = ("assistant", "tool", "function")


def _read_content(value: Any) -> str | None:
    """Text as it is; a list of text parts joined; anything else refused."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise ValueError("must be a string or a list of text parts")
    return PART_SEPARATOR.join(_read_part(part) for part in value)


def _read_part(part: Any) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    raise ValueError(f"may have parts of type text only, with a string in text; got {kind}")


def _read_tool_calls(value: Any) -> list[dict[str, Any]] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(call, dict) for call in value):
        raise ValueError("must be a list of objects")
    return [_with_parsed_arguments(call) for call in value]


def _with_parsed_arguments(call: dict[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise ValueError("must each have a function with a name")
    arguments = function.get("arguments")
    if not isinstance(arguments, str):
        return call
    try:
        parsed = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        raise ValueError(f"must each have JSON in function.arguments, {function['name']} has not") from None
    return {**call, "function": {**function, "arguments": parsed}}


class Message(BaseModel):
    """One message of a chat. Fields not named here reach the template as they are."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True)

    role: Role
    content: Annotated[str | None, PlainValidator(_read_content)] = None
    tool_calls: Annotated[list[dict[str, Any]] | None, PlainValidator(_read_tool_calls)] = None

    @model_validator(mode="after")
    def _has_content(self) -> "Message":
        if self.content is None and self.role not in _MAY_LACK_CONTENT:
            raise ValueError(f"must have content, as its role is {self.role}")
        return self

    def for_template(self) -> dict[str, Any]:
        """What the chat template is given; ``content`` is always text."""
        fields = {name: value for name, value in self.model_dump(exclude_unset=True).items() if value is not None}
        role = "system" if self.role == "developer" else self.role
        return {**fields, "role": role, "content": self.content or ""}
