"""The passes of a step that were begun: the one whose results come next, and what the device goes on with behind it."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.model_runner import Computation, Runner
from anaphora.engine.sampler import SampledToken
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import RequestId

Active = Mapping[RequestId, ActiveRequest]


class PassError(Exception):
    """The model raised what is the cause of this. The pass and those behind it were taken back."""

    def __init__(self, request_ids: Sequence[RequestId], num_tokens: int) -> None:
        """``request_ids``: of the pass that failed."""
        super().__init__(f"a pass of {num_tokens} tokens failed")
        self.request_ids = request_ids


class TakenIn(NamedTuple):
    """What came of a pass: the parts that count, and a token for each that samples."""

    parts: Sequence[ScheduledRequest]
    sampled: Mapping[RequestId, SampledToken]


class BegunPasses:
    """Begins what the scheduler decides on, at most two passes at a time, and takes it in, in its order.

    Whatever is raised, the scheduler's step is taken back as far as it came to nothing.
    """

    def __init__(self, scheduler: Scheduler, runner: Runner) -> None:
        self._scheduler = scheduler
        self.runner = runner
        self._begun: deque[tuple[SchedulerOutput, Computation]] = deque()

    def __bool__(self) -> bool:
        return bool(self._begun)

    @property
    def has_room(self) -> bool:
        """Whether another pass may be begun."""
        return not self._begun or (len(self._begun) == 1 and self._begun[0][1].may_be_followed)

    def begin(self, output: SchedulerOutput, active: Active) -> None:
        """Have a pass computed. The step behind it is clear if it is the first one and nobody waits.

        Raises:
            PassError: the model raised.
        """
        are_alone = not self._begun and not self._scheduler.num_waiting
        try:
            computation = self.runner.begin(output.scheduled, active, are_alone=are_alone)
        except Exception as error:
            raise self._failed(output) from error
        except BaseException:  # interrupted from the keyboard, say: the step is void, and the next one may begin
            self._drop_from(self._begun[0][0] if self._begun else output)
            raise
        self._begun.append((output, computation))

    def take_in(self, active: Active) -> TakenIn:
        """Wait for the first pass. If it is the last, and nobody waits, the step behind it is clear.

        Raises:
            PassError: the model raised.
        """
        output, computation = self._begun[0]
        parts = self._scheduler.expected(output)
        try:
            if self.has_room and not self._scheduler.num_waiting:
                computation.go_on([*parts, *self._scheduler.standing_by()])
            sampled = computation.tokens({part.request.request_id for part in parts})
        except Exception as error:
            raise self._failed(output) from error
        except BaseException:
            self._drop_from(output)
            raise
        self._begun.popleft()
        for request_id, token in sampled.items():  # only now do they count: until here all can be taken back
            active[request_id].sampling.observe(token.token_id)
        self._scheduler.update(output, {request_id: token.token_id for request_id, token in sampled.items()})
        return TakenIn(parts, sampled)

    def _failed(self, output: SchedulerOutput) -> PassError:
        request_ids = [part.request.request_id for part in self._scheduler.expected(output)]
        self._drop_from(output)
        return PassError(request_ids, output.num_tokens)

    def _drop_from(self, output: SchedulerOutput) -> None:
        """A pass came to nothing, and so do those behind it."""
        self._scheduler.fail(output)
        while self._begun and self._begun[-1][0] not in self._scheduler.passes:
            self._begun.pop()
