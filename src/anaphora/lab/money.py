"""Tokens times prices: what requests cost with the prefix cache, and what the same would cost without it. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from anaphora.errors import ConfigError

PER = 1_000_000
"""Prices are for so many tokens."""
REQUESTS = 1000
"""Bills are for so many requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost. ``cached`` and ``written``: read from and written into the prefix cache; ``None``:
    they cost what other input costs."""

    input: float
    output: float
    cached: float | None = None
    written: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name != "currency" and value is not None and not 0 <= value < float("inf"):
                raise ConfigError(f"the price of {entry.name} tokens must be a number from 0 on, got {value!r}")
        if not self.currency.strip():
            raise ConfigError("the currency of the prices must be named, such as USD")

    @classmethod
    def from_stored(cls, value: Mapping[str, Any]) -> "Prices":
        """From :meth:`as_stored`, or from a profile's table."""
        return cls(**value)

    def as_stored(self) -> dict[str, Any]:
        """Without what is not said."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """Token counts of one request. ``prompt`` includes ``cached`` and ``written``."""

    prompt: float
    output: float
    cached: float = 0
    written: float = 0


def cost(tokens: Tokens, prices: Prices) -> float:
    """The price of one request."""
    cached_price = prices.input if prices.cached is None else prices.cached
    written_price = prices.input if prices.written is None else prices.written
    computed = max(0.0, tokens.prompt - tokens.cached - tokens.written)
    total = computed * prices.input + tokens.cached * cached_price + tokens.written * written_price
    return (total + tokens.output * prices.output) / PER


@dataclass(frozen=True, slots=True, kw_only=True)
class Bill:
    """What :data:`REQUESTS` requests like some measured ones cost, with the cache and if nothing were cached, and the
    mean token counts behind it."""

    num_requests: int
    mean: Tokens
    with_cache: float
    without_cache: float

    @property
    def saved_percent(self) -> float | None:
        """``None`` where there is nothing to save."""
        return None if self.without_cache == 0 else (1 - self.with_cache / self.without_cache) * 100


def bill(requests: Sequence[Tokens], prices: Prices) -> Bill | None:
    """The bill of requests like these; ``None`` for none."""
    if not requests:
        return None
    mean = Tokens(
        **{entry.name: sum(getattr(one, entry.name) for one in requests) / len(requests) for entry in fields(Tokens)}
    )
    return Bill(
        num_requests=len(requests),
        mean=mean,
        with_cache=cost(mean, prices) * REQUESTS,
        without_cache=cost(Tokens(prompt=mean.prompt, output=mean.output), prices) * REQUESTS,
    )
