"""The part of the results that is about money: from records and prices to a bill for each experiment."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.money import Prices, Tokens, bill
from anaphora.lab.usage import read_usage
from anaphora.traces.records import RequestRecord

_DIGITS = 6


def tokens_of(record: RequestRecord) -> Tokens | None:
    """What the answer says is to be paid; ``None`` if it does not tell its prompt, output and cached tokens."""
    usage = read_usage(record.usage)
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
    if prices is None:
        return None
    known = Prices.from_stored(prices)
    on = [r for r in records if r.arm == "on" and r.phase == "measured" and r.error is None]
    names = dict.fromkeys(record.experiment for record in on)
    return {
        "prices": known.as_stored(),
        "rows": [_row(name, [r for r in on if r.experiment == name], known) for name in names],
    }


def _row(name: str, records: Sequence[RequestRecord], prices: Prices) -> dict[str, Any]:
    told = [tokens for record in records if (tokens := tokens_of(record)) is not None]
    made = bill(told, prices)
    return {
        "experiment": name,
        "num_requests": len(records),
        "num_told": len(told),
        "prompt_tokens": None if made is None else round(made.mean.prompt, 3),
        "cached_tokens": None if made is None else round(made.mean.cached, 3),
        "written_tokens": None if made is None else round(made.mean.written, 3),
        "output_tokens": None if made is None else round(made.mean.output, 3),
        "with_cache_per_1000": None if made is None else round(made.with_cache, _DIGITS),
        "without_cache_per_1000": None if made is None else round(made.without_cache, _DIGITS),
        "saved_percent": None if made is None or made.saved_percent is None else round(made.saved_percent, 3),
    }
