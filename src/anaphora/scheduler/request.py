"""One prompt and one continuation of it: what is known of it, and the states it passes through."""

from collections.abc import Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, Literal

from anaphora.errors import RequestError
from anaphora.kvcache.ledger import Ledger
from anaphora.kvcache.token_blocks import TokenBlocks, pack
from anaphora.types import Namespace, RequestId

if TYPE_CHECKING:
    from array import array

FinishReason = Literal["stop", "length", "abort"]

DEFAULT_NAMESPACE = Namespace("")
"""The default tenant's, without a salt."""


class RequestStatus(Enum):
    """``WAITING → RUNNING → FINISHED``; from running back to ``PREEMPTED`` or ``WAITING``; all to ``FINISHED``."""

    WAITING = auto()
    RUNNING = auto()
    PREEMPTED = auto()
    """Waiting again: its blocks were needed for an earlier request, and its tokens will be computed again."""
    FINISHED = auto()


class Request:
    """The state machine of one request. Everybody reads; only the scheduler calls the transitions.

    ``stop_token_ids``: a sampled token out of these ends the request once ``min_tokens`` are there; it belongs to the
    output. ``max_tokens=0`` computes the prompt and samples nothing. ``lookup=False`` does not read the prefix cache,
    but what is computed is stored. A prompt in an array (``"I"``) is not copied: nobody may change it.

    Raises:
        RequestError: the prompt is empty or holds something that is no token id, or a count is out of range.
    """

    def __init__(
        self,
        *,
        request_id: RequestId,
        prompt_token_ids: Sequence[int],
        max_tokens: int,
        min_tokens: int = 0,
        stop_token_ids: frozenset[int] = frozenset(),
        namespace: Namespace = DEFAULT_NAMESPACE,
        lookup: bool = True,
    ) -> None:
        if not len(prompt_token_ids):
            raise RequestError("the prompt is empty: send at least one token", param="prompt")
        if max_tokens < 0:
            raise RequestError(f"max_tokens must be at least 0, got {max_tokens}", param="max_tokens")
        if not 0 <= min_tokens <= max_tokens:
            raise RequestError(f"min_tokens must be from 0 to max_tokens, got {min_tokens}", param="min_tokens")
        self.request_id = request_id
        self.namespace = namespace
        self.max_tokens = max_tokens
        self.min_tokens = min_tokens
        self.stop_token_ids = stop_token_ids
        self.lookup = lookup
        self.num_prompt_tokens = len(prompt_token_ids)
        self._prompt = pack(prompt_token_ids)
        self._output_token_ids: list[int] = []
        self._num_tokens = self.num_prompt_tokens
        self._blocks: TokenBlocks | None = None
        self._arrival: int | None = None
        self._status = RequestStatus.WAITING
        self._num_computed_tokens = 0
        self._num_tokens_once_computed = 0
        self._num_recomputed_tokens = 0
        self._ledger: Ledger | None = None
        self._finish_reason: FinishReason | None = None
        self._stop_reason: int | None = None

    # -- what is known -----------------------------------------------------------------------------------------------

    @property
    def prompt_token_ids(self) -> Sequence[int]:
        """The prompt, in an array (``"I"``). Not to be changed by the reader."""
        return self._prompt

    @property
    def output_token_ids(self) -> Sequence[int]:
        """The tokens sampled so far. Grows in place; not to be changed by the reader."""
        return self._output_token_ids

    def token_ids(self, start: int, stop: int) -> "array[int]":
        """Known tokens ``[start, stop)`` of prompt and output."""
        num_before = self.num_prompt_tokens
        if stop <= num_before:
            return self._prompt[start:stop]
        return self._prompt[start:] + pack(self._output_token_ids[max(start - num_before, 0) : stop - num_before])

    @property
    def num_tokens(self) -> int:
        """Known tokens: prompt and output so far."""
        return self._num_tokens

    @property
    def num_output_tokens(self) -> int:
        return len(self._output_token_ids)

    @property
    def num_computed_tokens(self) -> int:
        """Tokens from the first on whose keys and values exist. Each step lets them catch up with the known ones."""
        return self._num_computed_tokens

    @property
    def num_recomputed_tokens(self) -> int:
        """Tokens that were lost to preemption and computed again."""
        return self._num_recomputed_tokens

    @property
    def status(self) -> RequestStatus:
        return self._status

    @property
    def is_finished(self) -> bool:
        return self._status is RequestStatus.FINISHED

    @property
    def ledger(self) -> Ledger | None:
        """Where the prompt's tokens came from: ``None`` until the request is first admitted, then fixed."""
        return self._ledger

    @property
    def finish_reason(self) -> FinishReason | None:
        return self._finish_reason

    @property
    def stop_reason(self) -> int | None:
        """The stop token that ended the request, if one did."""
        return self._stop_reason

    @property
    def arrival(self) -> int:
        """Its number in the order of arrival."""
        assert self._arrival is not None
        return self._arrival

    @property
    def blocks(self) -> TokenBlocks:
        """The known tokens packed for the cache."""
        assert self._blocks is not None
        return self._blocks

    def __repr__(self) -> str:
        return f"Request({self.request_id}, {self._status.name}, {self._num_computed_tokens}/{self.num_tokens} tokens)"

    # -- transitions: the scheduler's ----------------------------------------------------------------------------------

    def arrive(self, arrival: int, block_size: int) -> None:
        """The scheduler has taken it in."""
        assert self._arrival is None, f"{self} was added before"
        self._arrival = arrival
        self._blocks = TokenBlocks(self._prompt, block_size)

    def admit(self, num_cached_tokens: int, ledger: Ledger) -> None:
        """It holds blocks; the first ``num_cached_tokens`` tokens need not be computed. The first ledger stays."""
        assert self._status in (RequestStatus.WAITING, RequestStatus.PREEMPTED), self
        self._status = RequestStatus.RUNNING
        self._num_computed_tokens = num_cached_tokens
        self._ledger = self._ledger or ledger

    def revoke_admission(self, *, is_first: bool) -> None:
        """The first step since the admission came to nothing: back to where it was."""
        assert self._status is RequestStatus.RUNNING, self
        self._status = RequestStatus.WAITING if is_first else RequestStatus.PREEMPTED
        self._num_computed_tokens = 0
        if is_first:
            self._ledger = None

    def preempt(self) -> None:
        """Its blocks are taken away."""
        assert self._status is RequestStatus.RUNNING, self
        self._status = RequestStatus.PREEMPTED
        self._num_computed_tokens = 0

    def advance(self, num_tokens: int) -> int:
        """``num_tokens`` more tokens are computed. Returns how many of them preemption had taken away."""
        assert self._status is RequestStatus.RUNNING, self
        start = self._num_computed_tokens
        end = self._num_computed_tokens = start + num_tokens
        assert end <= self._num_tokens, self
        once = self._num_tokens_once_computed
        if once <= start:
            self._num_tokens_once_computed = end
            return 0
        num_recomputed = min(end, once) - start
        self._num_recomputed_tokens += num_recomputed
        self._num_tokens_once_computed = max(end, once)
        return num_recomputed

    def append(self, token_id: int) -> None:
        """A token was sampled."""
        assert self._num_computed_tokens == self._num_tokens, self
        assert self._blocks is not None
        self._num_tokens += 1
        self._output_token_ids.append(token_id)
        self._blocks.append(token_id)

    def decode(self, token_ids: Sequence[int]) -> None:
        """In as many steps, the last known token was computed and the next one sampled."""
        assert self._status is RequestStatus.RUNNING, self
        assert self._num_computed_tokens == self.num_tokens - 1, self
        self._num_tokens += len(token_ids)
        self._output_token_ids.extend(token_ids)
        self.blocks.extend(token_ids)
        self._num_computed_tokens = self._num_tokens_once_computed = self.num_tokens - 1

    def finish(self, reason: FinishReason, stop_reason: int | None = None) -> None:
        """The end."""
        assert self._status is not RequestStatus.FINISHED, self
        self._status = RequestStatus.FINISHED
        self._finish_reason = reason
        self._stop_reason = stop_reason
