"""How to continue a prompt: OpenAI's and vLLM's sampling settings as one frozen, checked value."""

from dataclasses import dataclass

from anaphora.errors import RequestError

MAX_LOGPROBS = 20
"""As many alternatives per token as OpenAI's API allows."""
GREEDY_BELOW = 1e-5
"""Temperatures under this take the likeliest token."""
LOWEST_REPETITION_PENALTY = 0.01
"""Logits are divided by it, and must stay numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """Settings of one generation. Names and meanings are OpenAI's and vLLM's.

    Raises:
        RequestError: a value is out of its range; ``param`` names the field.
    """

    max_tokens: int = 16
    """0 computes the prompt only (for ``echo`` with ``logprobs``)."""
    min_tokens: int = 0
    temperature: float = 1.0
    """0 is greedy, and so is anything below ``GREEDY_BELOW``: float32 could not divide logits by it."""
    top_p: float = 1.0
    top_k: int = 0
    """0 (or -1) keeps all tokens."""
    min_p: float = 0.0
    seed: int | None = None
    """Same seed and prompt, same text, whatever else is in the batch."""
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    include_stop_str_in_output: bool = False
    """Whether the text keeps the stop string, or the text of the stop token, that ended it."""
    skip_special_tokens: bool = True
    """Whether the text leaves special tokens out."""
    logprobs: int | None = None
    """Alternatives reported beside each generated token: 0 reports the token alone, ``None`` nothing."""
    prompt_logprobs: int | None = None
    """The same for the prompt's tokens. Such a request passes the prefix cache by on reading."""
    logit_bias: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        _within("max_tokens", self.max_tokens, 0, None)
        _within("min_tokens", self.min_tokens, 0, self.max_tokens)
        _within("temperature", self.temperature, 0.0, 2.0)
        _within("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _within("top_k", self.top_k, -1, None)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _within("repetition_penalty", self.repetition_penalty, LOWEST_REPETITION_PENALTY, 2.0)
        if self.logprobs is not None:
            _within("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        if self.prompt_logprobs is not None:
            _within("prompt_logprobs", self.prompt_logprobs, 0, MAX_LOGPROBS)
        if self.seed is not None:
            _within("seed", self.seed, -(2**63), 2**63 - 1)
        if any(not s for s in self.stop):
            raise RequestError("stop strings must not be empty", param="stop")
        for _, bias in self.logit_bias:
            _within("logit_bias", bias, -100.0, 100.0)

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken each time."""
        return self.temperature < GREEDY_BELOW


def _within(name: str, value: float, low: float, high: float | None, *, open_low: bool = False) -> None:
    in_low = value > low if open_low else value >= low
    if in_low and (high is None or value <= high):  # a NaN fails the comparison and ends below
        return
    bound = f"greater than {low}" if open_low else f"at least {low}"
    bound += "" if high is None else f" and at most {high}"
    raise RequestError(f"{name} must be {bound}, got {value}", param=name)
