"""Log-probabilities in OpenAI's two shapes: a list of objects for chats, parallel lists for text completions."""

from collections.abc import Sequence

from anaphora.engine import PositionLogprobs, TokenLogprob
from anaphora.protocol.answers import ChatLogprobs, ChatTokenLogprob, CompletionLogprobs, TopLogprob
from anaphora.tokenizer.tokenizer import Tokenizer

LOWEST_LOGPROB = -9999.0
"""Stands for minus infinity, which JSON does not have (a token masked out)."""


def chat_logprobs(positions: Sequence[PositionLogprobs], tokenizer: Tokenizer) -> ChatLogprobs:
    """Generated tokens with their alternatives."""
    return {"content": [_chat_position(position, tokenizer) for position in positions]}


def _chat_position(position: PositionLogprobs, tokenizer: Tokenizer) -> ChatTokenLogprob:
    chosen = _chat_token(position.token, tokenizer)
    return {**chosen, "top_logprobs": [_chat_token(token, tokenizer) for token in position.top]}


def _chat_token(token: TokenLogprob, tokenizer: Tokenizer) -> TopLogprob:
    raw = tokenizer.token_bytes(token.token_id)
    return {
        "token": tokenizer.token_text(token.token_id),
        "logprob": max(token.logprob, LOWEST_LOGPROB),
        "bytes": None if raw is None else list(raw),
    }


def completion_logprobs(
    token_ids: Sequence[int],
    positions: Sequence[PositionLogprobs | None],
    tokenizer: Tokenizer,
    *,
    offset: int,
) -> CompletionLogprobs:
    """Tokens and what is known of each; ``positions`` has ``None`` where nothing is (a prompt's first token).

    ``offset``: characters of the choice's text before the first of these tokens.
    """
    texts = [tokenizer.token_text(token_id) for token_id in token_ids]
    offsets = []
    for text in texts:
        offsets.append(offset)
        offset += len(text)
    return {
        "text_offset": offsets,
        "token_logprobs": [None if at is None else max(at.token.logprob, LOWEST_LOGPROB) for at in positions],
        "tokens": texts,
        "top_logprobs": [None if at is None else _alternatives(at, tokenizer) for at in positions],
    }


def _alternatives(position: PositionLogprobs, tokenizer: Tokenizer) -> dict[str, float]:
    """Text to log-probability, the token itself included. Of tokens with the same text the likeliest counts."""
    found: dict[str, float] = {}
    for token in (*position.top, position.token):
        text = tokenizer.token_text(token.token_id)
        found[text] = max(token.logprob, found.get(text, LOWEST_LOGPROB))
    return found
