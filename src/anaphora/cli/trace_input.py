"""A trace from a file, with prompts as tokens or blocks, whatever the file holds."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anaphora.traces.request import Trace


def read_for_cache(path: Path, trace_format: str | None, trace_block_size: int | None, model: str | None) -> "Trace":
    """Read a trace; ``model`` turns texts and chats into tokens, where there are any."""
    from anaphora.traces.reader import read_trace
    from anaphora.traces.tokenised import needs_tokenizer, tokenised

    trace = read_trace(path, format_name=trace_format, block_size=trace_block_size)
    if model is None or not needs_tokenizer(trace):
        return trace
    return tokenised(trace, _encoder(model))


def _encoder(model: str) -> Any:
    """Texts and chats into tokens exactly as the server does it."""
    from anaphora.checkpoints import find_checkpoint
    from anaphora.errors import RequestError
    from anaphora.protocol.messages import Message
    from anaphora.protocol.openai import TEMPLATE_OWN_NAMES
    from anaphora.tokenizer import Tokenizer
    from anaphora.traces.request import ChatPrompt, TextPrompt

    folder = Path(model)
    tokenizer = Tokenizer.from_folder(folder if folder.is_dir() else find_checkpoint(model).path)

    def encode(prompt: ChatPrompt | TextPrompt) -> Sequence[int]:
        if isinstance(prompt, TextPrompt):
            return tokenizer.encode(prompt.text)
        for name in sorted(TEMPLATE_OWN_NAMES & prompt.template_kwargs.keys()):
            raise RequestError(f"chat_template_kwargs may not set {name}", param="chat_template_kwargs")
        messages = [Message.model_validate(message).for_template() for message in prompt.messages]
        return tokenizer.encode_chat(messages, tools=prompt.tools or None, **prompt.template_kwargs)

    return encode


def kv_bytes_per_token(model: str) -> int:
    """Keys and values in half precision, as servers keep them."""
    from anaphora.checkpoints import find_checkpoint, read_model_config

    folder = Path(model)
    config = read_model_config(folder) if folder.is_dir() else find_checkpoint(model).config
    return config.kv_bytes_per_token(element_bytes=2)
