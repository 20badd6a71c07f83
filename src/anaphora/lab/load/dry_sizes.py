"""How many tokens the requests of a load have, and how many of them the cache would serve, before any is sent."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anaphora.lab.load.chat_planning import chats
from anaphora.lab.load.records import Stage
from anaphora.lab.load.replay import Replay
from anaphora.lab.load.situation import Schedule, Situation
from anaphora.lab.load.vocabulary import find_vocabulary
from anaphora.lab.load.workloads import BlockPrompt
from anaphora.lab.money import Tokens
from anaphora.lab.prediction import DEFAULT_BLOCK_SIZE


@dataclass(frozen=True, slots=True)
class Sizes:
    """``total`` is of a stage's requests of these numbers together; ``later`` of one request of which the shared
    beginning is cached, with caching on. ``knows_hits``: whether cached tokens were reckoned."""

    total: Callable[[Stage, Sequence[int]], Tokens]
    later: Tokens
    knows_hits: bool


async def sizes_of_chats(situation: Situation) -> Sizes:
    """Of chats behind shared system prompts: all are as long as the first two of the lowest level."""
    settings = situation.settings
    workload, _ = await chats(situation, await find_vocabulary(situation.tokenizer.count_text), True)
    stage = Stage(number=0, loop=settings.loop, level=settings.levels[0], arm="on", round=0, num_processes=1)
    made = workload(stage)
    numbers = (0, settings.num_prefixes) if settings.prefix_tokens else (0, 1)
    bodies = [json.loads(made.body(number)) for number in numbers]
    one, other = [await situation.tokenizer.chat_token_ids(body["messages"]) for body in bodies]
    length = await _estimated(situation, bodies[0]) if one is None else len(one)
    shared = 0 if one is None or other is None else _whole_blocks(_num_shared(one, other))
    num_prefixes = settings.num_prefixes if settings.prefix_tokens else 1

    def total(stage: Stage, numbers: Sequence[int]) -> Tokens:
        num_hits = max(0, len(numbers) - num_prefixes) if stage.arm == "on" else 0
        return Tokens(
            prompt=len(numbers) * length, cached=num_hits * shared, output=len(numbers) * settings.output_tokens
        )

    later = Tokens(prompt=length, cached=shared, output=settings.output_tokens)
    return Sizes(total, later, knows_hits=one is not None)


async def sizes_of_trace(situation: Situation, replay: Replay, due: Schedule) -> Sizes:
    """Of a trace's prompts; what they share is known where the trace has block ids."""
    if not replay.blocks:
        lengths = [await _estimated(situation, prompt) for prompt in replay.verbatim]

        def of_texts(stage: Stage, numbers: Sequence[int]) -> Tokens:
            places = [due(stage)[number][1] for number in numbers]
            return Tokens(prompt=sum(lengths[p] for p in places), output=sum(replay.outputs[p] for p in places))

        return Sizes(of_texts, Tokens(prompt=0, output=0), knows_hits=False)

    def of_blocks(stage: Stage, numbers: Sequence[int]) -> Tokens:
        sent = due(stage)
        prompts = [replay.blocks[sent[number][1]] for number in numbers]
        return Tokens(
            prompt=sum(prompt.num_tokens for prompt in prompts),
            cached=_cached(prompts, replay.block_size) if stage.arm == "on" else 0,
            output=sum(prompt.output_tokens for prompt in prompts),
        )

    return Sizes(of_blocks, Tokens(prompt=0, output=0), knows_hits=True)


def _cached(prompts: Sequence[BlockPrompt], block_size: int) -> int:
    """Tokens of prompts that begin as an earlier one did, in whole blocks; the last token is always computed."""
    known: set[tuple[int, ...]] = set()
    cached = 0
    for prompt in prompts:
        beginnings = [tuple(prompt.block_ids[:end]) for end in range(1, len(prompt.block_ids) + 1)]
        num_shared = next((n for n, beginning in enumerate(beginnings) if beginning not in known), len(beginnings))
        cached += _whole_blocks(min(num_shared * block_size, prompt.num_tokens - 1))
        known.update(beginnings)
    return cached


def _num_shared(one: Sequence[int], other: Sequence[int]) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)) - 1)


def _whole_blocks(num_tokens: int) -> int:
    """As servers usually cut: their own block size is told when the run asks them."""
    return num_tokens // DEFAULT_BLOCK_SIZE * DEFAULT_BLOCK_SIZE


async def _estimated(situation: Situation, prompt: Mapping[str, Any]) -> int:
    """Tokens of a chat or a bare prompt, by its text."""
    if "messages" in prompt:
        text = "\n".join(str(message.get("content")) for message in prompt["messages"])
    elif isinstance(prompt["prompt"], str):
        text = prompt["prompt"]
    else:
        return len(prompt["prompt"])
    return await situation.tokenizer.count_text(text) or 0
