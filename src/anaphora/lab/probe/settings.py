"""What a probe may do, and the most that it will send."""

from dataclasses import dataclass

from anaphora.errors import ConfigError
from anaphora.lab.probe import block_size, capacity, eviction, held_back, minimum, retention, reuse, steps
from anaphora.lab.probe.asking import TEMPLATE_TOKENS
from anaphora.lab.probe.branches import NAME as BRANCHES
from anaphora.lab.probe.isolation import KEYS, SALTS

_LEAST_WORDS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeSettings:
    """``prompt_words``: how long prompts are at first. ``max_tokens``: prompt tokens that may be sent in all.
    ``max_wait_s``: how long retention may be waited for."""

    prompt_words: int = 512
    max_tokens: int = 120_000
    max_wait_s: float = 60.0

    def __post_init__(self) -> None:
        if self.prompt_words < _LEAST_WORDS:
            raise ConfigError(f"--prompt-words must be at least {_LEAST_WORDS}, got {self.prompt_words}")
        if self.max_tokens < self.least_tokens:
            raise ConfigError(
                f"--max-tokens {self.max_tokens} is too little to begin with: give at least {self.least_tokens}, or a "
                "smaller --prompt-words"
            )
        if not 0 <= self.max_wait_s < 10**7:
            raise ConfigError(f"--max-wait must be 0 or more seconds, got {self.max_wait_s:g}")

    @property
    def least_tokens(self) -> int:
        """What the first question alone may take."""
        return (2 * reuse.NUM_PAIRS + 3) * (self.prompt_words + TEMPLATE_TOKENS)


@dataclass(frozen=True, slots=True)
class StepCost:
    """The most that one step sends, with prompts of the first length. ``num_requests`` is ``None`` where only the
    tokens are limited."""

    name: str
    num_requests: int | None
    num_tokens: int
    wait_s: float = 0.0


def costs(settings: ProbeSettings, *, other_key: bool = False) -> list[StepCost]:
    """What is sent at most, step by step, before anything is."""
    prompt = settings.prompt_words + TEMPLATE_TOKENS
    halvings = settings.prompt_words.bit_length() + 2
    num_partings = steps.NUM_BASES * (1 + block_size.NUM_VARIANTS)
    found = [
        StepCost(reuse.NAME, 2 * reuse.NUM_PAIRS + 3, (2 * reuse.NUM_PAIRS + 3) * prompt),
        StepCost(block_size.NAME, num_partings, num_partings * prompt),
        StepCost(minimum.NAME, 2 * halvings + 4, (2 * halvings + 8) * prompt),
        StepCost(held_back.NAME, held_back.MAX_REQUESTS, held_back.MAX_REQUESTS * 2 * prompt),
        *(StepCost(name, 3, 3 * prompt) for name in (BRANCHES, SALTS, *([KEYS] if other_key else []))),
    ]
    number = retention.max_requests(settings.max_wait_s)
    found.append(StepCost(retention.NAME, number, number * prompt, settings.max_wait_s))
    rest = max(0, settings.max_tokens - sum(step.num_tokens for step in found))
    return [*found, StepCost(f"{capacity.NAME}, {eviction.NAME}", None, rest)]
