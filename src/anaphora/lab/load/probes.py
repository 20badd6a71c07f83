"""What a target takes beyond the plainest requests: asked once, before anything is measured."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.load.jobs import Address
from anaphora.lab.load.streams import Streams
from anaphora.lab.load.workloads import CHAT_PATH, COMPLETIONS_PATH
from anaphora.lab.targets.base import Reply
from anaphora.lab.usage import read_usage


async def takes_ignore_eos(address: Address, model: str) -> bool:
    """Whether a request may ask that its answer goes on to the last token asked for."""
    messages = [{"role": "user", "content": "Hi"}]
    reply = await _ask(address, CHAT_PATH, {"model": model, "messages": messages, "max_tokens": 1, "ignore_eos": True})
    return reply.answer.error is None


async def takes_token_ids(address: Address, model: str, ids: Sequence[int]) -> bool:
    """Whether a prompt may be token ids, and is taken for as many tokens as it has."""
    reply = await _ask(address, COMPLETIONS_PATH, {"model": model, "prompt": list(ids), "max_tokens": 1})
    return reply.answer.error is None and read_usage(reply.answer.usage).num_prompt_tokens == len(ids)


async def _ask(address: Address, path: str, body: Mapping[str, Any]) -> Reply:
    streams = Streams(address, path, clock=time.monotonic_ns)
    try:
        return await streams.ask(json.dumps({**body, "temperature": 0}).encode())
    finally:
        await streams.close()
