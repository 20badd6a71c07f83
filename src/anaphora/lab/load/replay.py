"""From a trace to prompts that can be sent: blocks become texts of their own, texts and chats go as they are."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from anaphora.errors import ConfigError, TraceError
from anaphora.lab.load.workloads import BlockPrompt
from anaphora.traces.reader import read_trace
from anaphora.traces.request import ChatPrompt, HashedPrompt, TextPrompt, TokenPrompt, Trace, TraceRequest


@dataclass(frozen=True, slots=True)
class Replay:
    """``blocks``, in blocks of ``block_size`` tokens, or ``verbatim`` fields of requests' bodies; one prompt for each
    of the trace's requests, in order. ``outputs``: tokens to be asked for."""

    trace: Trace
    block_size: int
    blocks: Sequence[BlockPrompt]
    verbatim: Sequence[Mapping[str, Any]]
    outputs: Sequence[int]

    @property
    def is_chat(self) -> bool:
        """Whether the prompts are messages."""
        return bool(self.verbatim) and "messages" in self.verbatim[0]

    @property
    def has_token_ids(self) -> bool:
        """Whether the prompts are token ids of the trace's own."""
        return bool(self.verbatim) and isinstance(self.verbatim[0].get("prompt"), list)


def read_replay(
    path: Path, *, format_name: str | None, block_size: int | None, shrink: int, default_output_tokens: int
) -> Replay:
    """Read a trace. ``shrink`` divides blocks and outputs of a hashed trace, so that long prompts fit a small machine
    and share just as they did.

    Raises:
        TraceError: the trace cannot be read, or mixes kinds of prompts.
        ConfigError: it cannot be shrunk so.
    """
    trace = _with_blocks(read_trace(path, format_name=format_name, block_size=block_size))
    kinds = {type(request.prompt) for request in trace.requests}
    if len(kinds) > 1:
        names = " and ".join(sorted(f"{kind.__name__}s" for kind in kinds))
        raise TraceError(f"{path} mixes {names}: replay one kind at a time")
    wanted = [request.num_output_tokens or default_output_tokens for request in trace.requests]
    if kinds != {HashedPrompt}:
        if shrink > 1:
            raise ConfigError("--shrink is for traces of block ids: the prompts of this one are sent as they are")
        return Replay(trace, 0, (), [_fields(request) for request in trace.requests], wanted)
    assert trace.block_size is not None
    if shrink > trace.block_size:
        raise ConfigError(f"--shrink {shrink} leaves nothing of blocks of {trace.block_size} tokens")
    outputs = [max(1, round(tokens / shrink)) for tokens in wanted]
    small = trace.block_size // shrink
    number_of = _Numbers()
    blocks = [
        _block_prompt(request, trace.block_size, small, tokens, number_of)
        for request, tokens in zip(trace.requests, outputs, strict=True)
    ]
    return Replay(trace, small, blocks, (), outputs)


class _Numbers:
    """Block ids of different namespaces as different numbers."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, int], int] = {}

    def __call__(self, namespace: str, block_id: int) -> int:
        return self._numbers.setdefault((namespace, block_id), len(self._numbers))


def _block_prompt(
    request: TraceRequest, block_size: int, small: int, output_tokens: int, number_of: Callable[[str, int], int]
) -> BlockPrompt:
    prompt = request.prompt
    assert isinstance(prompt, HashedPrompt)
    num_full, tail = divmod(prompt.num_tokens, block_size)
    num_tokens = num_full * small + (max(1, tail * small // block_size) if tail else 0)
    ids = [number_of(request.namespace, block_id) for block_id in prompt.block_ids]
    return BlockPrompt(ids, num_tokens, output_tokens)


def _with_blocks(trace: Trace) -> Trace:
    """A request log of digests has numbers in place of tokens, one a block: as blocks they can be given texts."""
    block_size = trace.block_size
    if trace.format != "request-log" or block_size is None:
        return trace

    def as_blocks(request: TraceRequest) -> TraceRequest:
        assert isinstance(request.prompt, TokenPrompt)
        tokens = request.prompt.token_ids
        return request._replace(prompt=HashedPrompt(tokens[::block_size], len(tokens)))

    return replace(trace, requests=tuple(as_blocks(request) for request in trace.requests))


def _fields(request: TraceRequest) -> Mapping[str, Any]:
    match request.prompt:
        case ChatPrompt(messages, tools, _):
            return {"messages": list(messages), **({"tools": list(tools)} if tools else {})}
        case TextPrompt(text):
            return {"prompt": text}
        case TokenPrompt(token_ids):
            return {"prompt": token_ids.tolist()}
        case prompt:
            raise AssertionError(prompt)
