"""A request body becomes a checked value, or one sentence that names the field."""

import codecs
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from anaphora.errors import RequestError

_BYTE_ORDER_MARKS = (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_CODES = {"missing": "missing_required_parameter", "json_invalid": "invalid_json"}

M = TypeVar("M", bound=BaseModel)


def parse(schema: type[M], body: bytes) -> M:
    """``body`` (JSON) as a ``schema``.

    Raises:
        RequestError: it is no JSON object, or a field is missing, of a wrong type or out of range. ``param`` names the
            field; only the first mistake is told.
    """
    try:
        return schema.model_validate_json(body)
    except ValidationError as error:
        raise _first_mistake(error, body) from None


def _first_mistake(error: ValidationError, body: bytes) -> RequestError:
    mistake = error.errors(include_url=False, include_input=False)[0]
    kind, field, context = mistake["type"], _path(mistake["loc"]), mistake.get("ctx", {})
    code = _CODES.get(kind, "invalid_value")
    if kind == "json_invalid" and body.startswith(_BYTE_ORDER_MARKS):
        return RequestError("the body must be JSON in UTF-8, without a byte-order mark", code=code)
    if kind == "json_invalid":
        return RequestError(f"the body is not valid JSON: {context['error']}", code=code)
    if not field:
        return RequestError("the body must be a JSON object", code=code)
    return RequestError(f"{field} {_complaint(kind, mistake['msg'], context)}", param=field, code=code)


def _complaint(kind: str, message: str, context: Mapping[str, Any]) -> str:
    """Pydantic's message as the end of a sentence that begins with the field's name."""
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return "is not known here"
    if kind == "too_short":
        return f"must have at least {context['min_length']} item"
    if kind == "too_long":
        return f"must have at most {context['max_length']} items, got {context['actual_length']}"
    text = message.removeprefix("Value error, ").replace("Input should", "must").replace("String should", "must")
    return text[0].lower() + text[1:]


def _path(location: Sequence[str | int]) -> str:
    """``("messages", 0, "content")`` as a person writes it: ``messages[0].content``."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path
