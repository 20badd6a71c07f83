"""OpenAI's answer schemas: the shapes of the JSON objects that the server sends.

They are typed dictionaries, since an answer is built once and encoded once; nothing is checked again at run time.
"""

from typing import Literal, NotRequired, TypedDict

FinishReason = Literal["stop", "length"]


class TokenWindow(TypedDict):
    """A few tokens from one position on, as ids and as text."""

    token_ids: list[int]
    text: str


class LedgerDivergence(TypedDict):
    """Where the prompt parted from the nearest earlier prompt of the same tenant (``position``: token index)."""

    position: int
    earlier_request_id: str
    expected: TokenWindow
    found: TokenWindow


class LedgerView(TypedDict):
    """Prompt tokens by reason; the counts add up to the prompt's length."""

    reasons: dict[str, int]
    divergence: LedgerDivergence | None
    evicted_blocks_ago: int | None


class PromptTokensDetails(TypedDict):
    """``cached_tokens`` is always there and 0 when nothing was cached; ``ledger`` only when asked for."""

    cached_tokens: int
    ledger: NotRequired[LedgerView]


class Usage(TypedDict):
    """Tokens of one HTTP request. A prompt counts once, whatever ``n`` is."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails


class PinAnswer(TypedDict):
    """One pinned prefix; ``expires_in_s`` is ``None`` if it stays until it is let go."""

    id: str
    tenant: str
    num_blocks: int
    num_tokens: int
    expires_in_s: float | None


class CacheNode(TypedDict):
    """A stretch of blocks in the prefix index; ``parent`` is the ``number`` of the one it continues.

    ``state``: ``pending``, ``cached`` or ``evicted``. ``age_blocks``: blocks stored since, ``None`` unless cached.
    """

    number: int
    parent: int | None
    tenant: str
    state: str
    num_blocks: int
    num_tokens: int
    begins_with: TokenWindow
    num_holders: int
    num_hits: int
    age_blocks: int | None


class RequestAccount(TypedDict):
    """What the operator sees of one engine request; here the ledger tells what other tenants hold (``isolated``)."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    recomputed_tokens: int
    ledger: LedgerView


class TopLogprob(TypedDict):
    token: str
    logprob: float
    bytes: list[int] | None


class ChatTokenLogprob(TypedDict):
    token: str
    logprob: float
    bytes: list[int] | None
    top_logprobs: list[TopLogprob]


class ChatLogprobs(TypedDict):
    content: list[ChatTokenLogprob]


class CompletionLogprobs(TypedDict):
    """Parallel lists, one entry per token; the first token of an echoed prompt has ``None`` for both logprobs."""

    text_offset: list[int]
    token_logprobs: list[float | None]
    tokens: list[str]
    top_logprobs: list[dict[str, float] | None]


class ErrorBody(TypedDict):
    message: str
    type: str
    param: str | None
    code: str | None


class ErrorAnswer(TypedDict):
    error: ErrorBody
