"""The part of the results that is about money: from token counts and prices to a bill for each experiment or level."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anaphora.lab.money import Prices, Tokens, bill, cost
from anaphora.lab.usage import read_usage
from anaphora.traces.records import RequestRecord

_DIGITS = 6

RawUsage = Mapping[str, Any] | None
"""An answer's ``usage`` as the server sent it."""


def tokens_of(raw: RawUsage) -> Tokens | None:
    """What the answer says is to be paid; ``None`` if it does not tell its prompt, output and cached tokens."""
    usage = read_usage(raw)
    if usage.num_prompt_tokens is None or usage.num_completion_tokens is None or usage.num_cached_tokens is None:
        return None
    return Tokens(
        prompt=usage.num_prompt_tokens,
        output=usage.num_completion_tokens,
        cached=usage.num_cached_tokens,
        written=usage.num_written_tokens or 0,
    )


def money_of(records: Sequence[RequestRecord], prices: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """``None`` without prices. A row an experiment, over its measured on-requests; one of which no request tells its
    tokens has no costs."""
    good = [record for record in records if record.error is None]
    by_name: dict[str, list[RawUsage]] = {}
    for record in good:
        if record.arm == "on" and record.phase == "measured":
            by_name.setdefault(record.experiment, []).append(record.usage)
    return bills_of(
        by_name,
        [record.usage for record in good],
        prices,
        means_over="means over the on-requests without the first",
    )


def bills_of(
    by_name: Mapping[str, Sequence[RawUsage]],
    everything: Iterable[RawUsage],
    prices: Mapping[str, Any] | None,
    *,
    means_over: str,
) -> dict[str, Any] | None:
    """Of 1000 requests like those of each name, and of ``everything`` that was answered; ``None`` without prices."""
    if prices is None:
        return None
    known = Prices.from_stored(prices)
    told = [tokens for usage in everything if (tokens := tokens_of(usage)) is not None]
    return {
        "prices": known.as_stored(),
        "means_over": means_over,
        "rows": [_row(name, usages, known) for name, usages in by_name.items()],
        "whole_run": {
            "num_told": len(told),
            "cost": round(sum(cost(tokens, known) for tokens in told), _DIGITS) if told else None,
        },
    }


def _row(name: str, usages: Sequence[RawUsage], prices: Prices) -> dict[str, Any]:
    told = [tokens for usage in usages if (tokens := tokens_of(usage)) is not None]
    made = bill(told, prices)
    return {
        "experiment": name,
        "num_requests": len(usages),
        "num_told": len(told),
        "prompt_tokens": None if made is None else round(made.mean.prompt, 3),
        "cached_tokens": None if made is None else round(made.mean.cached, 3),
        "written_tokens": None if made is None else round(made.mean.written, 3),
        "output_tokens": None if made is None else round(made.mean.output, 3),
        "with_cache_per_1000": None if made is None else round(made.with_cache, _DIGITS),
        "without_cache_per_1000": None if made is None else round(made.without_cache, _DIGITS),
        "saved_percent": None if made is None or made.saved_percent is None else round(made.saved_percent, 3),
    }
