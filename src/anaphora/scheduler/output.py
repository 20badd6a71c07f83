"""What one step is to compute: frozen records that the model runner reads."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from anaphora.scheduler.request import Request
from anaphora.types import RequestId

if TYPE_CHECKING:
    from array import array


class ScheduledRequest(NamedTuple):
    """One request's part of a step: tokens ``[start, start + num_new_tokens)``.

    After the step ``start + num_new_tokens`` tokens lie in the blocks of ``block_table``. Between steps a block of a
    table may be replaced by another with equal content; in one step the table does not change.
    """

    request: Request
    start: int
    num_new_tokens: int
    block_table: "array[int]"
    """Unsigned 32-bit numbers. Not to be changed by the reader."""
    samples: bool
    """Whether the last known token is among them, so that the next one is sampled. Never for ``max_tokens=0``."""

    @property
    def end(self) -> int:
        """Tokens computed after this step."""
        return self.start + self.num_new_tokens


@dataclass(frozen=True, slots=True, eq=False)
class SchedulerOutput:
    """A step, or one pass of it. Requests are in the order of their scheduling: a request may read what an earlier one
    computes, and what an earlier pass of the same step does."""

    step: int
    scheduled: tuple[ScheduledRequest, ...]
    preempted: tuple[RequestId, ...]
    num_tokens: int
    """Tokens to compute, over all requests."""
