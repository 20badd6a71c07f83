"""How long a prompt may be."""

from anaphora.errors import PromptTooLongError
from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.request import Request


def check_length(request: Request, config: SchedulerConfig, cache: CacheConfig) -> None:
    """See that a request can run.

    Raises:
        PromptTooLongError: the prompt, and one token more if any is wanted, can never fit.
    """
    if request.num_prompt_tokens + min(1, request.max_tokens) > config.max_model_len:
        raise PromptTooLongError(
            f"the prompt has {request.num_prompt_tokens} tokens, but the context length is "
            f"{config.max_model_len} tokens for prompt and output: shorten the prompt",
            param="prompt",
            code="context_length_exceeded",
        )
    if request.num_prompt_tokens > cache.num_slots:
        raise PromptTooLongError(
            f"the prompt has {request.num_prompt_tokens} tokens, but the KV cache holds "
            f"{cache.num_slots}: shorten the prompt or give the cache more memory",
            param="prompt",
            code="context_length_exceeded",
        )
