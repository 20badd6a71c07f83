"""Prompts out of OpenAI request bodies, as far as that goes without a tokenizer."""

from array import array
from collections.abc import Sequence
from typing import Any

from anaphora.traces.base import as_object
from anaphora.traces.request import ChatPrompt, Prompt, TextPrompt, TokenPrompt


def prompt_of_body(value: Any) -> Prompt:
    """What a chat or completion request asks.

    Raises:
        ValueError: the body has no prompt, or several.
    """
    body = as_object(value)
    messages, prompt = body.get("messages"), body.get("prompt")
    if isinstance(messages, list) and messages:
        tools, template_kwargs = body.get("tools"), body.get("chat_template_kwargs") or {}
        if not all(isinstance(message, dict) for message in messages):
            raise ValueError("messages must be objects")
        if tools is not None and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
            raise ValueError("tools must be a list of objects")
        return ChatPrompt(messages, tools, as_object(template_kwargs))
    if isinstance(prompt, str):
        return TextPrompt(prompt)
    if isinstance(prompt, list) and prompt:
        return TokenPrompt(token_ids(prompt))
    raise ValueError("neither messages nor a single prompt")


def token_ids(value: Any) -> "array[int]":
    """A JSON list of token ids. Raises :class:`ValueError` if it is anything else."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError("token ids must be a list of integers")
    try:
        return array("I", value)
    except (TypeError, OverflowError) as error:
        raise ValueError(f"token ids must be integers from 0 to 4294967295: {error}") from error
