"""The step that is being put together or computed."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from anaphora.kvcache.block_table import BlockTable
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import Request
from anaphora.types import RequestId

if TYPE_CHECKING:
    from array import array


@dataclass(slots=True)
class Step:
    """What ``schedule`` has decided so far, and whose admission is still to be confirmed by the results.

    A step is computed in one pass or in several, whose results are taken in one after another.
    """

    number: int
    budget: int
    """Tokens that the step still has room for."""
    num_prefill_tokens: int = 0
    """In the pass that is put together, of requests that compute more than one token: their prompts, or what they
    lost."""
    num_single_tokens: int = 0
    """In that pass, of requests that compute just one: most of them decode."""
    num_passes: int = 0
    """Decided on."""
    most_prefill_tokens: int = 0
    """In one of them."""
    scheduled: list[ScheduledRequest] = field(default_factory=list)
    """Of the pass that is put together."""
    preempted: list[RequestId] = field(default_factory=list)
    admitted: dict[Request, bool] = field(default_factory=dict)
    """Requests admitted in this step whose results are not taken in; whether for the first time."""
    parts: dict[Request, ScheduledRequest] = field(default_factory=dict)
    """What counts of all that is scheduled and not taken in: a request that was aborted or put back is not here."""
    passes: deque[SchedulerOutput] = field(default_factory=deque)
    """Those whose results are not taken in."""

    def add(self, request: Request, num_new_tokens: int, block_table: "array[int]") -> None:
        """Make a request part of the step."""
        start = request.num_computed_tokens
        samples = start + num_new_tokens == request.num_tokens and request.max_tokens > 0
        part = self.parts[request] = ScheduledRequest(request, start, num_new_tokens, block_table, samples)
        self.scheduled.append(part)
        self.budget -= num_new_tokens
        if num_new_tokens == 1:
            self.num_single_tokens += 1
        else:
            self.num_prefill_tokens += num_new_tokens

    def close_pass(self) -> SchedulerOutput:
        """The decision on a pass stands. What is scheduled from now on is another one's."""
        num_tokens = sum(part.num_new_tokens for part in self.scheduled)
        output = SchedulerOutput(self.number, tuple(self.scheduled), tuple(self.preempted), num_tokens)
        self.passes.append(output)
        self.num_passes += 1
        self.most_prefill_tokens = max(self.most_prefill_tokens, self.num_prefill_tokens)
        self.scheduled, self.num_prefill_tokens, self.num_single_tokens = [], 0, 0
        return output

    def expected(self, output: SchedulerOutput) -> list[ScheduledRequest]:
        """The parts of a pass that still count."""
        return [part for part in output.scheduled if self.parts.get(part.request) is part]


def standing_by(
    running: Iterable[Request], parts: Mapping[Request, ScheduledRequest], tables: Mapping[RequestId, BlockTable]
) -> list[ScheduledRequest]:
    """Running requests that none of ``parts`` is of, each as a part without tokens. It ``samples`` if its last known
    token is all that is missing."""
    found = []
    for request in running:
        if request not in parts:
            start, table = request.num_computed_tokens, tables[request.request_id].ids
            found.append(ScheduledRequest(request, start, 0, table, samples=start + 1 == request.num_tokens))
    return found
