"""How many units of text make a prompt of so many tokens: asked of the target's tokenizer, or estimated from its
usage."""

from collections.abc import Awaitable, Callable, Sequence

from anaphora.errors import TargetError
from anaphora.lab.targets.base import ChatRequest, Message, PromptTokenizer, Target
from anaphora.lab.usage import read_usage

CountTokens = Callable[[str], Awaitable[int]]


async def largest_fit(build: Callable[[int], str], num_tokens: int, count: CountTokens) -> int:
    """The greatest n with ``count(build(n)) <= num_tokens``, for a ``build`` whose texts grow with n; at least 0."""
    low, high = 0, 64
    while await count(build(high)) <= num_tokens:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if await count(build(middle)) <= num_tokens:
            low = middle
        else:
            high = middle
    return low


async def token_counter(
    target: Target, tokenizer: PromptTokenizer, sample: Callable[[int], str]
) -> tuple[CountTokens, bool]:
    """A function that counts a text's tokens, and whether its counts are exact.

    Without a tokenizer the ratio of tokens to characters is measured with two requests of one output token;
    ``sample(n)`` gives their texts, which must share no beginning with what is measured later.
    """
    if await tokenizer.count_text(sample(8)) is not None:

        async def count_exactly(text: str) -> int:
            count = await tokenizer.count_text(text)
            if count is None:
                raise TargetError("the target's tokenizer stopped answering: look into its log")
            return count

        return count_exactly, True
    short, long = sample(40), sample(400)
    extra = await _prompt_tokens(target, long) - await _prompt_tokens(target, short)
    if extra <= 0:
        raise TargetError("the target's usage does not grow with the prompt: give its tokenizer with --tokenizer MODEL")
    tokens_per_character = extra / (len(long) - len(short))

    async def estimate(text: str) -> int:
        return round(len(text) * tokens_per_character)

    return estimate, False


async def _prompt_tokens(target: Target, text: str) -> int:
    messages: Sequence[Message] = ({"role": "user", "content": text},)
    reply = await target.chat(ChatRequest(messages=tuple(messages), max_tokens=1))
    count = read_usage(reply.answer.usage).num_prompt_tokens
    if reply.answer.error is not None:
        raise TargetError(f"the target refused a first request: {reply.answer.error}")
    if count is None:
        raise TargetError("the target tells no token counts (no usage): give its tokenizer with --tokenizer MODEL")
    return count
