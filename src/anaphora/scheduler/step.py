"""The step that is being put together or computed."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import Request
from anaphora.types import RequestId

if TYPE_CHECKING:
    from array import array


@dataclass(slots=True)
class Step:
    """What ``schedule`` has decided so far, and whose admission is still to be confirmed by the results."""

    number: int
    budget: int
    """Tokens that the step still has room for."""
    num_prefill_tokens: int = 0
    """Of requests that compute more than one token: their prompts, or what they lost."""
    num_single_tokens: int = 0
    """Of requests that compute just one: most of them decode."""
    scheduled: list[ScheduledRequest] = field(default_factory=list)
    preempted: list[RequestId] = field(default_factory=list)
    admitted: dict[Request, bool] = field(default_factory=dict)
    """Requests admitted in this step; whether for the first time."""
    output: SchedulerOutput | None = None

    def add(self, request: Request, num_new_tokens: int, block_table: "array[int]") -> None:
        """Make a request part of the step."""
        start = request.num_computed_tokens
        samples = start + num_new_tokens == request.num_tokens and request.max_tokens > 0
        self.scheduled.append(ScheduledRequest(request, start, num_new_tokens, block_table, samples))
        self.budget -= num_new_tokens
        if num_new_tokens == 1:
            self.num_single_tokens += 1
        else:
            self.num_prefill_tokens += num_new_tokens

    def close(self) -> SchedulerOutput:
        """The decision stands."""
        num_tokens = sum(part.num_new_tokens for part in self.scheduled)
        self.output = SchedulerOutput(self.number, tuple(self.scheduled), tuple(self.preempted), num_tokens)
        return self.output
