"""One request inside the engine core: the scheduler's part, the sampler's part, and what came out of it."""

from anaphora.engine.logprobs import PromptLogprobs
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_state import SamplingState
from anaphora.scheduler.request import Request


class ActiveRequest:
    """Joins the state that different rooms own; owned by the engine core from ``add`` until the last output."""

    def __init__(self, request: GenerationRequest, *, eos_token_ids: tuple[int, ...], key: tuple[int, int]) -> None:
        """``key`` names the stream of random numbers if the request brings no seed."""
        params = request.params
        self.eos_token_ids = frozenset() if params.ignore_eos else frozenset(eos_token_ids)
        stop_token_ids = self.eos_token_ids | set(params.stop_token_ids)
        self.scheduled = Request(
            request_id=request.request_id,
            prompt_token_ids=request.prompt_token_ids,
            max_tokens=params.max_tokens,
            min_tokens=params.min_tokens,
            stop_token_ids=stop_token_ids,
            namespace=request.namespace,
            lookup=request.lookup and params.prompt_logprobs is None,
        )
        self.sampling = SamplingState(
            params,
            request.prompt_token_ids,
            end_token_ids=stop_token_ids,
            key=key if params.seed is None else (params.seed, 0),
        )
        self.prompt_logprobs: PromptLogprobs | None = None
        if params.prompt_logprobs is not None:
            self.prompt_logprobs = PromptLogprobs(request.prompt_token_ids, params.prompt_logprobs)
        self.first_scheduled_s: float | None = None
        """When the request was first in a step (``time.monotonic``)."""

    @property
    def stop_reason(self) -> int | None:
        """The stop token id that ended the generation; ``None`` for an end-of-sequence token or no stop."""
        reason = self.scheduled.stop_reason
        return None if reason in self.eos_token_ids else reason
