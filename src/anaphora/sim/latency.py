"""How long a step takes, as a sum over what it computes. Seven coefficients, from a file or fitted to measurements.

Linear products cost time per computed token, attention per pair of a query and a key, and decoding reads the keys and
values of every token before: the three grow differently, so each has a coefficient. What a step costs whatever it
holds (a pass over the weights, launches) is a constant, and so is what a request costs outside of steps. A few tokens
are computed while the weights are read anyway, and cost nothing.
"""

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

from anaphora.errors import ConfigError
from anaphora.scheduler.output import SchedulerOutput

MS_PER_S = 1000.0


class StepWork(NamedTuple):
    """What one step, or several together, compute."""

    num_steps: int
    num_requests: int
    """Requests that have a part in a step, over all steps."""
    num_computed_tokens: int
    num_read_tokens: float
    """Tokens whose keys and values are read: each request's, from its first token to its last new one."""
    num_attention_pairs: float
    """Of a new token and a token that it attends to, itself included."""


def work_of(output: SchedulerOutput) -> StepWork:
    """What a scheduled step computes."""
    num_read, num_pairs = 0, 0
    for part in output.scheduled:
        start, num_new = part.start, part.num_new_tokens
        num_read += start + num_new
        num_pairs += num_new * start + num_new * (num_new + 1) // 2
    return StepWork(1, len(output.scheduled), output.num_tokens, num_read, num_pairs)


def prefill_work(num_prompt_tokens: int, num_cached_tokens: int, token_budget: int) -> StepWork:
    """What it takes to compute a prompt that is alone on a server, in chunks of the token budget."""
    start, num_steps, num_read, num_pairs = num_cached_tokens, 0, 0, 0
    while start < num_prompt_tokens:
        num_new = min(token_budget, num_prompt_tokens - start)
        num_steps += 1
        num_read += start + num_new
        num_pairs += num_new * start + num_new * (num_new + 1) // 2
        start += num_new
    return StepWork(num_steps, num_steps, num_prompt_tokens - num_cached_tokens, num_read, num_pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyModel:
    """Milliseconds, but for ``free_tokens``. A coefficient that is not given is 0.

    Raises:
        ConfigError: a coefficient is negative or no number, or all those of steps are 0.
    """

    overhead_ms: float = 0.0
    """Per request, outside of steps: HTTP, tokenising, the way to the engine and back."""
    step_ms: float = 0.0
    """Per step, whatever it computes."""
    request_ms: float = 0.0
    """Per request of a step, whatever its length."""
    computed_ms_per_ktoken: float = 0.0
    """Per 1000 tokens computed, but for the free ones."""
    free_tokens: float = 0.0
    """Per step: so many are computed in the time of ``step_ms``."""
    read_ms_per_ktoken: float = 0.0
    """Per 1000 tokens whose keys and values are read."""
    attention_ms_per_mpair: float = 0.0
    """Per million pairs of a new token and one that it attends to."""

    def __post_init__(self) -> None:
        for name, value in self.to_json().items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
                unit = "tokens" if name == "free_tokens" else "milliseconds"
                raise ConfigError(f"{name} must be a number of {unit}, not negative, got {value!r}")
        if not any(value for name, value in self.to_json().items() if name not in ("overhead_ms", "free_tokens")):
            raise ConfigError("a step takes no time by these coefficients: give at least one besides overhead_ms")

    def to_json(self) -> dict[str, float]:
        """The coefficients by name, as :meth:`from_json` takes them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Coefficients by name.

        Raises:
            ConfigError: a name is unknown, or see the class.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ConfigError(f"{unknown[0]!r} is no coefficient of a latency model; there are {', '.join(known)}")
        return cls(**values)

    def milliseconds(self, work: StepWork) -> float:
        """The steps' duration, without the overhead of requests."""
        return (
            self.step_ms * work.num_steps
            + self.request_ms * work.num_requests
            + self.computed_ms_per_ktoken * max(0.0, work.num_computed_tokens - self.free_tokens * work.num_steps) / 1e3
            + self.read_ms_per_ktoken * work.num_read_tokens / 1e3
            + self.attention_ms_per_mpair * work.num_attention_pairs / 1e6
        )


def read_latency_file(path: Path) -> LatencyModel:
    """A JSON object of coefficients, or one that has them under ``coefficients``, as `anaphora simulate` writes it.

    Raises:
        ConfigError: it cannot be read, or holds something else.
    """
    try:
        value = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot read the latency file {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is no JSON file of coefficients: {error}") from error
    if isinstance(value, dict):
        value = value.get("coefficients", value)
    if not isinstance(value, dict):
        raise ConfigError(f'{path} must hold an object such as {{"step_ms": 20, "computed_ms_per_ktoken": 150}}')
    try:
        return LatencyModel.from_json(value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error
