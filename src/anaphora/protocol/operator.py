"""The operator's request schemas."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from anaphora.errors import RequestError
from anaphora.protocol.messages import Message
from anaphora.protocol.openai import MAX_MESSAGES, MAX_SALT_CHARS

MAX_TTL_S = 366 * 86_400.0


def _read_prompt(value: Any) -> Any:
    is_ids = isinstance(value, list) and all(type(item) is int for item in value)  # a boolean is no token id
    if not (value is None or isinstance(value, str) or is_ids):
        raise ValueError("must be a string or a list of token ids")
    return value


class PinRequest(BaseModel):
    """Body of ``POST /cache/pins``: ``prompt`` or ``messages``, whose, and for how long.

    Fields that are not known are refused: a pin with a misspelt ``ttl_s`` would never end.
    """

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    model: str | None = None
    prompt: Annotated[str | list[int] | None, PlainValidator(_read_prompt)] = None
    messages: list[Message] | None = Field(None, min_length=1, max_length=MAX_MESSAGES, fail_fast=True)
    tools: list[dict[str, Any]] | None = None
    add_special_tokens: bool = True
    id: str | None = Field(None, pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    """``None``: a new one. A pin of the same id is replaced."""
    tenant: str | None = None
    """The API key's name, such as ``key-1``; may be left out where no keys are set."""
    cache_salt: str | None = Field(None, min_length=1, max_length=MAX_SALT_CHARS)
    ttl_s: float | None = Field(None, gt=0, le=MAX_TTL_S)
    """``None``: until it is let go."""

    def check(self) -> None:
        """Refuse both or neither of ``prompt`` and ``messages``.

        Raises:
            RequestError: with ``param`` naming the field.
        """
        if (self.prompt is None) == (self.messages is None):
            raise RequestError("give either prompt or messages", param="prompt")
