"""What a load run would send, and how long it would take, without one request being sent."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from anaphora.lab.arms import ArmsProof, Mechanism
from anaphora.lab.dry_run import SilentTarget, dry_target
from anaphora.lab.load.capacity import Capacity
from anaphora.lab.load.chat_planning import poisson_schedule
from anaphora.lab.load.dry_sizes import Sizes, sizes_of_chats, sizes_of_trace
from anaphora.lab.load.levels import level_name
from anaphora.lab.load.records import Stage
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.situation import Situation
from anaphora.lab.load.stages import sweep
from anaphora.lab.load.trace_planning import due_of, numbered, read_trace
from anaphora.lab.money import REQUESTS, Prices, Tokens, cost
from anaphora.lab.options import BenchOptions
from anaphora.lab.progress import duration
from anaphora.report.tables import Table

_RUN_ID = "dry-run"
_ANY_NUMBER = Capacity(1 << 20, ())
"""The client is not calibrated: how many processes it takes is found when it is."""
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class _Planned:
    """A stage with how many requests are due in it; ``None``: as many as the server answers."""

    stage: Stage
    num_requests: int | None
    tokens: Tokens | None
    """Of all its requests together."""


async def dry_run(options: BenchOptions, settings: LoadSettings, note: Callable[[str], None]) -> Table:
    """Requests, tokens, time and, where prices are known, money. Only a server that stands already is asked, and only
    to list its models and to tokenise.

    Raises:
        ConfigError: prompts do not fit the context, or the trace has nothing to send.
        TraceError: the trace cannot be replayed.
    """
    async with AsyncExitStack() as stack:
        tokenizer, max_model_len, prices = await dry_target(options, stack, note)
        target = SilentTarget(tokenizer)
        situation = Situation(
            settings=settings,
            target=target,
            tokenizer=target,
            addresses={},
            model="",
            extra={},
            max_model_len=max_model_len,
            run_id=_RUN_ID,
            lang=options.lang,
            seed=options.seed,
            proof=ArmsProof(Mechanism.FLAG if options.arms == "flag" else Mechanism.SALT, ""),
            capacity=_ANY_NUMBER,
            note=note,
        )
        planned, sizes = await _planned(situation)
        return _table(settings, planned, sizes, prices, estimates=target.estimates)


async def _planned(situation: Situation) -> tuple[list[_Planned], Sizes]:
    """All stages, with what each would send."""
    settings = situation.settings
    stages = sweep(settings.loop, settings.levels, settings.rounds, lambda level: 1)
    if settings.trace is not None:
        replay = read_trace(situation, settings.trace)
        due = due_of(situation, replay)
        sizes, schedule = await sizes_of_trace(situation, replay, due), numbered(due)
    else:
        sizes, schedule = await sizes_of_chats(situation), poisson_schedule(situation)
    found = []
    for stage in stages:
        if settings.loop == "closed":
            most = None if settings.num_requests is None else settings.num_requests + 2 * round(stage.level)
            numbers: Sequence[int] | None = None if most is None else range(most)
        else:
            until_s = settings.warmup_s + settings.duration_s
            numbers = [number for due_s, number in schedule(stage) if due_s < until_s]
        tokens = None if numbers is None else sizes.total(stage, numbers)
        found.append(_Planned(stage, None if numbers is None else len(numbers), tokens))
    return found, sizes


def _table(
    settings: LoadSettings, planned: Sequence[_Planned], sizes: Sizes, prices: Prices | None, *, estimates: bool
) -> Table:
    seconds = settings.warmup_s + settings.duration_s
    rows = [
        (
            level_name(one.stage.loop, one.stage.level),
            str(one.stage.arm),
            f"{seconds:g}",
            _count(one.num_requests),
            *_tokens(one.tokens, sizes.knows_hits),
        )
        for one in planned
    ]
    total = _sum([one.tokens for one in planned])
    num_requests = None if total is None else sum(one.num_requests or 0 for one in planned)
    whole = f"{seconds * len(planned):g}"
    rows.append(("all", "", whole, _count(num_requests), *_tokens(total, sizes.knows_hits)))
    notes = [
        f"{len(planned)} stages take at most about {duration(seconds * len(planned))}, what the last answers of each "
        "take, and a minute for calibrating the client",
        *_of_closed_loop(settings, sizes, prices),
        *([] if prices is None or total is None else [_price(total, prices, sizes.knows_hits)]),
        *(["hits are reckoned as if nothing were evicted"] if sizes.knows_hits else []),
        "nothing was sent but texts to be tokenised",
        *(["prompt tokens are estimated at four characters a token: give --tokenizer MODEL"] if estimates else []),
    ]
    columns = (
        "<level",
        "<caching",
        "seconds, at most",
        "requests",
        "prompt tokens",
        "of these from the cache",
        "output tokens, at most",
    )
    return Table("Dry run: what would be sent", columns, tuple(rows), "\n".join(notes))


def _of_closed_loop(settings: LoadSettings, sizes: Sizes, prices: Prices | None) -> list[str]:
    """How many requests a closed loop sends is known when it is over: so a request's own tokens, and its price."""
    if settings.loop != "closed":
        return []
    one = sizes.later
    hits = f", {one.cached:,.0f} of them from the cache with caching on" if sizes.knows_hits else ""
    lines = [
        f"a closed loop asks as fast as it is answered; each request has about {one.prompt:,.0f} prompt tokens{hits} "
        f"and at most {one.output:,.0f} output tokens"
    ]
    if prices is not None:
        off = Tokens(prompt=one.prompt, output=one.output)
        costs = [f"{REQUESTS * cost(tokens, prices):,.4g} {prices.currency}" for tokens in (one, off)]
        lines.append(f"1000 of them cost at most {costs[0]} with the cache and {costs[1]} without")
    return lines


def _price(total: Tokens, prices: Prices, knows_hits: bool) -> str:
    hits = "with these tokens from the cache" if knows_hits else "if nothing is cached"
    return f"price of these requests: at most {cost(total, prices):,.4g} {prices.currency}, {hits}"


def _tokens(tokens: Tokens | None, knows_hits: bool) -> tuple[str, str, str]:
    if tokens is None:
        return (_UNKNOWN,) * 3
    return f"{tokens.prompt:,.0f}", f"{tokens.cached:,.0f}" if knows_hits else _UNKNOWN, f"{tokens.output:,.0f}"


def _count(number: int | None) -> str:
    return _UNKNOWN if number is None else f"{number:,}"


def _sum(parts: Sequence[Tokens | None]) -> Tokens | None:
    """``None`` if one of them is unknown."""
    known = [one for one in parts if one is not None]
    if len(known) < len(parts):
        return None
    return Tokens(
        prompt=sum(one.prompt for one in known),
        cached=sum(one.cached for one in known),
        output=sum(one.output for one in known),
    )
