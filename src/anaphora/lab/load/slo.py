"""Service-level objectives: named limits that a request keeps or breaks."""

import math
from collections.abc import Mapping

from anaphora.errors import ConfigError

LIMIT_NAMES = ("ttft_ms", "tpot_ms", "e2e_ms")


def parse_limits(text: str) -> dict[str, float]:
    """``ttft_ms=200,tpot_ms=30`` as limits by name.

    Raises:
        ConfigError: a name that is no limit, a number that is none, or a limit said twice.
    """
    limits: dict[str, float] = {}
    for part in text.split(","):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in LIMIT_NAMES:
            raise ConfigError(f"--slo has no limit {name!r}: it takes {', '.join(LIMIT_NAMES)}, as ttft_ms=200")
        try:
            limit = float(value)
        except ValueError:
            limit = math.nan
        if not 0 < limit < math.inf:
            raise ConfigError(f"--slo {name} takes a number of milliseconds above 0, got {value!r}")
        if name in limits:
            raise ConfigError(f"--slo says {name} twice")
        limits[name] = limit
    return limits


def keeps(limits: Mapping[str, float], times: Mapping[str, float | None]) -> bool:
    """Whether a request is known to have kept every limit: a time that is ``None`` was not measured and keeps none."""
    return all((value := times[name]) is not None and value <= limit for name, limit in limits.items())
