"""How much one step may hold, as one frozen, checked value."""

from dataclasses import dataclass

from anaphora.errors import ConfigError

DEFAULT_TARGET_PREFILL_TOKENS = 512


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
    target_prefill_tokens: int = DEFAULT_TARGET_PREFILL_TOKENS
    """Nobody is let into a step that computes so many prompt tokens already, but as a further pass of it where a device
    can have one to go on with (:meth:`Scheduler.extend`). 0: as many as its budget allows.

    From some hundreds of tokens on a step takes the longer the more it holds. So who waits for the next step gets its
    first token no later for that, and those before it get theirs sooner.
    """
    max_model_len: int
    """Most tokens of one request, prompt and output together."""
    enable_chunked_prefill: bool = True
    """Whether a prompt may be computed over several steps. If not, it waits until a step has room for all of it."""

    def __post_init__(self) -> None:
        for name in ("max_num_seqs", "max_num_batched_tokens", "max_model_len"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.target_prefill_tokens < 0:
            raise ConfigError(f"target_prefill_tokens must be at least 0, got {self.target_prefill_tokens}")
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.max_model_len:
            raise ConfigError(
                f"without chunked prefill max_num_batched_tokens ({self.max_num_batched_tokens}) must be at least "
                f"max_model_len ({self.max_model_len}): raise the one, lower the other, or enable chunked prefill"
            )
