"""What the engine core says of one request after a step: token ids, no text yet."""

import time
from typing import NamedTuple

from anaphora.engine.outputs import FinishReason, PositionLogprobs
from anaphora.errors import AnaphoraError
from anaphora.kvcache.ledger import Ledger
from anaphora.types import RequestId


class CoreOutput(NamedTuple):
    """What one step brought one request. With ``error`` or a ``finish_reason`` it is the last.

    A tuple, as one is made for every request in every step.
    """

    request_id: RequestId
    stepped_s: float
    """When this step ended (``time.monotonic``)."""
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
    error: AnaphoraError | None = None

    @classmethod
    def failed(cls, request_id: RequestId, error: AnaphoraError) -> "CoreOutput":
        """The last output of a request that has just failed."""
        return cls(request_id, time.monotonic(), error=error)

    @property
    def is_last(self) -> bool:
        """Whether nothing more comes for this request."""
        return self.error is not None or self.finish_reason is not None
