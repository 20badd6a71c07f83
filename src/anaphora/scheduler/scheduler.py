"""Continuous batching: which tokens of which requests the next step computes."""

from collections.abc import Iterator, Mapping, Sequence

from anaphora.errors import RequestError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.assembly import StepAssembly
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.decoding import decode, num_decode_steps
from anaphora.scheduler.integrity import check_integrity
from anaphora.scheduler.lengths import check_length
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import FinishReason, Request, RequestStatus
from anaphora.scheduler.roster import Roster
from anaphora.scheduler.stats import SchedulerStats
from anaphora.scheduler.step import Step, standing_by
from anaphora.types import RequestId


class Scheduler:
    """There is no prefill phase: each step lets the computed tokens of requests catch up with the known ones.

    Whole prompts, chunks of them, what a cache hit leaves, single tokens of decoding and what preemption took are then
    one and the same. ``schedule`` and ``update`` (or ``fail``) take turns; ``add`` and ``abort`` come at any moment.

    While a step is computed, ``extend`` may give it another pass: a device then has the next one to go on with before
    the host knows the results of this one. Each pass has an ``update`` of its own, in their order.
    """

    def __init__(self, config: SchedulerConfig, cache: CacheConfig | KVCacheManager) -> None:
        self.config = config
        self.cache = KVCacheManager(cache) if isinstance(cache, CacheConfig) else cache
        self.stats = SchedulerStats()
        # The last token needs no room: nothing is computed from it any more.
        self._max_tokens = min(config.max_model_len, self.cache.config.num_slots + 1)
        self._roster = Roster()
        self._assembly = StepAssembly(config, self.cache, self._roster, self.stats)
        self._step: Step | None = None
        self._num_scheduled_steps = 0

    # -- requests come and go ----------------------------------------------------------------------------------------

    @property
    def num_running(self) -> int:
        """Requests that hold blocks."""
        return len(self._roster.running)

    @property
    def running(self) -> Iterator[Request]:
        """Those, in the order of their arrival."""
        return iter(self._roster.running)

    @property
    def num_waiting(self) -> int:
        """Requests that hold none: new, preempted or put back."""
        return len(self._roster.waiting)

    def add(self, request: Request) -> None:
        """Take a request in. It waits behind all earlier ones.

        Raises:
            PromptTooLongError: the prompt, and one token more if any is wanted, can never fit.
            RequestError: a request of this name is here already.
        """
        if request.request_id in self._roster.by_id:
            raise RequestError(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        check_length(request, self.config, self.cache.config)
        self._roster.arrive(request, self.cache.config.block_size)

    def abort(self, request_id: RequestId) -> Request | None:
        """End a request now, whatever its state, and free its blocks. ``None`` if there is no such request.

        Between ``schedule`` and ``update`` its part of the step is void, and so is that of every request that was
        going to read the blocks it computes: those wait again.
        """
        request = self._roster.by_id.get(request_id)
        if request is None:
            return None
        if self._step is not None and request in self._step.parts:
            self._void(request, self._step)
        self._finish(request, "abort")
        return request

    def reset_prefix_cache(self) -> bool:
        """Forget all that is cached. ``False`` while blocks are in use, and then nothing was reset."""
        return self.cache.reset()

    # -- steps -------------------------------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput | None:
        """Decide on the next step: running requests first, then waiting ones, both in the order of arrival.

        ``None`` if there is nothing to do.
        """
        assert self._step is None, "the results of the last step have not been taken in: call update or fail"
        step = Step(self._num_scheduled_steps, self.config.max_num_batched_tokens)
        self._assembly.fill(step)
        if not step.scheduled:
            assert not self._roster.by_id, "requests are here, but none can go on"
            return None
        self._step = step
        self._num_scheduled_steps += 1
        return step.close_pass()

    def extend(self) -> SchedulerOutput | None:
        """Give the step that is computed another pass, of waiting requests alone; ``None`` if it can have none.

        Only where ``target_prefill_tokens`` has kept requests out that the step's budget has room for.
        """
        assert self._step is not None, "no step is being computed: call schedule"
        self._assembly.extend(self._step)
        return self._step.close_pass() if self._step.scheduled else None

    @property
    def passes(self) -> Sequence[SchedulerOutput]:
        """What was scheduled and is not yet taken in, in its order."""
        return () if self._step is None else self._step.passes

    def expected(self, output: SchedulerOutput) -> list[ScheduledRequest]:
        """The parts of a pass that ``update`` will take in: not those of requests that are over or wait again."""
        return self._open_step(output).expected(output)

    def standing_by(self) -> list[ScheduledRequest]:
        """Running requests that no pass under way computes: see :func:`anaphora.scheduler.step.standing_by`."""
        parts = {} if self._step is None else self._step.parts
        return standing_by(self._roster.running, parts, self.cache.tables)

    def update(self, output: SchedulerOutput, sampled: Mapping[RequestId, int]) -> list[Request]:
        """Take in the results of a pass: one token for each request that ``samples``. Returns those that finished."""
        step = self._open_step(output)
        assert step.passes[0] is output, "an earlier pass has not been taken in"
        parts = step.expected(output)
        missing = [part.request for part in parts if part.samples and part.request.request_id not in sampled]
        assert not missing, f"no token was sampled for {missing}"
        step.passes.popleft()
        self._end_if_over(step)
        finished: list[Request] = []
        for part in parts:
            del step.parts[part.request]
            self._take_in(part, step, sampled)
            if part.request.is_finished:
                finished.append(part.request)
        self.stats.num_steps += 1
        return finished

    def fail(self, output: SchedulerOutput) -> None:
        """A pass was not computed, and so none behind it. Their requests are as before, and will be scheduled again."""
        step = self._open_step(output)
        while output in step.passes:
            for part in reversed(step.expected(step.passes.pop())):  # who reads another's blocks stands after it
                if part.request in step.admitted:
                    self._assembly.put_back(part.request, step)
                else:
                    del step.parts[part.request]
                    self.cache.withdraw(part.request.request_id)
        self._end_if_over(step)
        self.stats.num_failed_steps += 1

    def num_decode_steps(self) -> int:
        """How many of the next steps :meth:`decode` can take at once, if no request comes meanwhile.

        All in which each running request decodes one token, none ends, and none is admitted.
        """
        assert self._step is None, "a step is open"
        num_running, config = len(self._roster.running), self.config
        has_room = num_running < min(config.max_num_seqs, config.max_num_batched_tokens)
        if not num_running or num_running > config.max_num_batched_tokens or (self._roster.waiting and has_room):
            return 0
        return num_decode_steps(self._roster.running, self.cache, self._max_tokens)

    def decode(self, sampled: Mapping[RequestId, Sequence[int]]) -> None:
        """Take several steps at once, at most :meth:`num_decode_steps`: what each running request samples in them."""
        num_steps = decode(self._roster.running, self.cache, sampled, self._num_scheduled_steps)
        self._num_scheduled_steps += num_steps
        self.stats.num_steps += num_steps
        self.stats.num_computed_tokens += num_steps * len(self._roster.running)

    def check_integrity(self) -> None:
        """Audit requests, queues and cache; an ``AssertionError`` names what is wrong."""
        assert len(self._roster.running) + len(self._roster.waiting) == len(self._roster.by_id)
        assert len(self._roster.running) <= self.config.max_num_seqs
        check_integrity(
            list(self._roster.running), list(self._roster.waiting), self.cache, is_between_steps=self._step is None
        )

    # -- inside ------------------------------------------------------------------------------------------------------

    def _open_step(self, output: SchedulerOutput) -> Step:
        assert self._step is not None, "there is no step to take in"
        assert output in self._step.passes, "this is no output of the present step"
        return self._step

    def _end_if_over(self, step: Step) -> None:
        if not step.passes:
            self._step = None

    def _take_in(self, part: ScheduledRequest, step: Step, sampled: Mapping[RequestId, int]) -> None:
        request, stats = part.request, self.stats
        if step.admitted.pop(request, False):
            assert request.ledger is not None
            self.cache.stats.count(request.ledger)
        stats.num_recomputed_tokens += request.advance(part.num_new_tokens)
        stats.num_computed_tokens += part.num_new_tokens
        self.cache.commit(request.request_id, part.end)
        if part.samples:
            self._append(request, sampled[request.request_id])
        elif part.end == request.num_tokens:  # max_tokens is 0, and the prompt is computed
            self._finish(request, "length")

    def _append(self, request: Request, token_id: int) -> None:
        request.append(token_id)
        num_output = len(request.output_token_ids)
        if token_id in request.stop_token_ids and num_output >= request.min_tokens:
            self._finish(request, "stop", token_id)
        elif num_output >= request.max_tokens or request.num_tokens >= self._max_tokens:
            self._finish(request, "length")

    def _finish(self, request: Request, reason: FinishReason, stop_reason: int | None = None) -> None:
        """Forget a request and free what it holds."""
        is_running = request.status is RequestStatus.RUNNING
        if is_running:
            self.cache.free(request.request_id)
        self._roster.leave(request, was_running=is_running)
        request.finish(reason, stop_reason)

    def _void(self, request: Request, step: Step) -> None:
        """The request's part of the step will not be computed: nothing that rests on it counts."""
        for request_id in reversed(self.cache.dependents(request.request_id)):
            self._assembly.put_back(self._roster.by_id[request_id], step)
        if request in step.admitted:
            self._assembly.put_back(request, step)
        else:
            del step.parts[request]
