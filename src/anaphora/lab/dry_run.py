"""What a run would send: requests and tokens, planned as for the run itself, without one request being sent."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

from anaphora.checkpoints import find_checkpoint
from anaphora.errors import TargetError
from anaphora.lab.money import Prices, Tokens, cost
from anaphora.lab.options import BY_FLAG, OURS, BenchOptions
from anaphora.lab.planning import Plan, make_plan
from anaphora.lab.servers import endpoint_for, find_target
from anaphora.lab.targets import system_role
from anaphora.lab.targets.base import ChatRequest, Message, PromptTokenizer, Reply, Tool
from anaphora.lab.targets.tokenizer import LocalTokenizer
from anaphora.report.tables import Table
from anaphora.traces.records import CounterReading

_CHARACTERS_PER_TOKEN = 4
_RUN_ID = "dry-run"


class NoTokenizer:
    """Knows nothing."""

    async def count_text(self, text: str) -> int | None:
        return None

    async def text_token_ids(self, text: str) -> list[int] | None:
        return None

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        return None


@dataclass(slots=True)
class SilentTarget:
    """A target that tokenises and is asked nothing else. Without a tokenizer, text is taken at four characters a
    token, and :attr:`estimates` says so."""

    tokenizer: PromptTokenizer
    estimates: bool = False

    async def count_text(self, text: str) -> int | None:
        count = await self.tokenizer.count_text(text)
        if count is not None:
            return count
        self.estimates = True
        return len(text) // _CHARACTERS_PER_TOKEN

    async def text_token_ids(self, text: str) -> list[int] | None:
        return await self.tokenizer.text_token_ids(text)

    async def chat_token_ids(self, messages: Sequence[Message], tools: Sequence[Tool] = ()) -> list[int] | None:
        return await self.tokenizer.chat_token_ids(messages, tools)

    async def chat(self, request: ChatRequest) -> Reply:
        raise TargetError("a dry run sends no request")

    async def read_counters(self) -> CounterReading | None:
        return None

    async def reset_prefix_cache(self) -> str | None:
        return None

    async def cache_settings(self) -> Mapping[str, Any]:
        return {}


async def dry_run(options: BenchOptions, note: Callable[[str], None]) -> Table:
    """What the run would send. Only a server that stands already is asked, and only to list its models and to
    tokenise."""
    async with AsyncExitStack() as stack:
        tokenizer, max_model_len, prices = await dry_target(options, stack, note)
        return await plan_dry(options, tokenizer, max_model_len, note, prices)


async def dry_target(
    options: BenchOptions, stack: AsyncExitStack, note: Callable[[str], None]
) -> tuple[PromptTokenizer, int | None, Prices | None]:
    """What a dry run needs of its target: the tokenizer, the context's length if it is known, and the prices."""
    prices = None if options.target == OURS else endpoint_for(options).prices
    return *await _dry_tokenizer(options, stack, note), prices


async def _dry_tokenizer(
    options: BenchOptions, stack: AsyncExitStack, note: Callable[[str], None]
) -> tuple[PromptTokenizer, int | None]:
    named = LocalTokenizer.of_model(options.tokenizer) if options.tokenizer else None
    if options.target != OURS:
        target = await find_target(options, stack, note)
        if named is None:
            await target.ask_tokenizer_for_system()
            if not target.takes_system:
                note(system_role.NOTE)
        return named or target, target.max_model_len
    if options.launch is not None:
        return named or NoTokenizer(), None
    checkpoint = find_checkpoint(options.model, needs_weights=False)
    return named or LocalTokenizer.of_model(str(checkpoint.path)), checkpoint.config.max_position_embeddings


async def plan_dry(
    options: BenchOptions,
    tokenizer: PromptTokenizer,
    max_model_len: int | None,
    note: Callable[[str], None],
    prices: Prices | None = None,
) -> Table:
    """Requests and tokens by experiment and arm, and what they cost where ``prices`` are known. Off requests are
    counted as with words in front, the longest way."""
    target = SilentTarget(tokenizer)
    arms = options.arms if options.arms in BY_FLAG else "nonce"
    plan = await make_plan(
        dataclasses.replace(options, arms=arms),
        target,
        target,
        run_id=_RUN_ID,
        max_model_len=max_model_len,
        note=lambda text: None if text.startswith("off means") else note(text),
    )
    return await _table(plan, target, prices)


async def _table(plan: Plan, target: SilentTarget, prices: Prices | None) -> Table:
    counts: dict[tuple[str, str], list[int | None]] = {}
    for trial, expected in zip(plan.trials, plan.expected, strict=True):
        row = counts.setdefault((trial.experiment, trial.arm), [0, 0, 0, 0])
        tokens = expected.num_prompt_tokens or await target.count_text(_text(trial.request)) or 0
        cached = None if row[2] is None or expected.cached_tokens is None else row[2] + expected.cached_tokens
        row[:] = [(row[0] or 0) + 1, (row[1] or 0) + tokens, cached, (row[3] or 0) + trial.request.max_tokens]
    rows = [(name, arm, *map(_cell, row)) for (name, arm), row in counts.items()]
    totals = [None if None in column else sum(filter(None, column)) for column in zip(*counts.values(), strict=True)]
    rows.append(("all", "", *map(_cell, totals)))
    columns = ("<experiment", "<arm", "requests", "prompt tokens", "of these from the cache", "output tokens, at most")
    notes = [
        *([] if prices is None else [_price(totals, prices)]),
        f"and {len(plan.warmups)} warm-up requests, and a few that prove how off requests miss",
        "nothing was sent but texts to be tokenised; how long the run takes is known after its warm-up",
        *(
            ["prompt tokens are estimated at four characters a token: give --tokenizer MODEL"]
            if target.estimates
            else []
        ),
    ]
    return Table("Dry run: what would be sent", columns, tuple(rows), "\n".join(notes))


def _price(totals: Sequence[int | None], prices: Prices) -> str:
    """At most: every answer as long as it may be. A cache that is not foreseen is taken for empty."""
    _, prompt, cached, output = totals
    most = cost(Tokens(prompt=prompt or 0, cached=cached or 0, output=output or 0), prices)
    hits = "if nothing is cached" if cached is None else "with these tokens from the cache"
    return f"price of these requests: at most {most:,.4g} {prices.currency}, {hits}"


def _text(request: ChatRequest) -> str:
    return "\n".join(str(message.get("content")) for message in request.messages)


def _cell(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"
