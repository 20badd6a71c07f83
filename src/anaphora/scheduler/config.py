"""How much one step may hold, as one frozen, checked value."""

from dataclasses import dataclass

from anaphora.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """Limits of a step and of a request.

    Raises:
        ConfigError: a value cannot be used, or whole prompts are wanted that no step has room for.
    """

    max_num_seqs: int = 256
    """Requests that run at the same time."""
    max_num_batched_tokens: int = 2048
    """The token budget of a step."""
    max_model_len: int
    """Most tokens of one request, prompt and output together."""
    enable_chunked_prefill: bool = True
    """Whether a prompt may be computed over several steps. If not, it waits until a step has room for all of it."""

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ConfigError(
                f"without chunked prefill max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least "
                f"max_model_len ({self.max_model_len}): raise the one, lower the other, or enable chunked prefill"
            )
