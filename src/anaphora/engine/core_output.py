"""What the engine core says of one request after a step: token ids, no text yet."""

import time
from dataclasses import dataclass, field

from anaphora.engine.outputs import FinishReason, PositionLogprobs
from anaphora.errors import AnaphoraError
from anaphora.kvcache.ledger import Ledger
from anaphora.types import RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class CoreOutput:
    """What one step brought one request. With ``error`` or a ``finish_reason`` it is the last."""

    request_id: RequestId
    token_id: int | None = None
    logprobs: PositionLogprobs | None = None
    prompt_logprobs: tuple[PositionLogprobs | None, ...] | None = None
    finish_reason: FinishReason | None = None
    stop_reason: int | None = None
    ledger: Ledger | None = None
    """``None`` only if the request was never admitted."""
    num_recomputed_tokens: int = 0
    scheduled_s: float | None = None
    """When the request was first in a step (``time.monotonic``)."""
    stepped_s: float = field(default_factory=time.monotonic)
    """When this step ended."""
    error: AnaphoraError | None = None

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes for this request."""
        return self.error is not None or self.finish_reason is not None
