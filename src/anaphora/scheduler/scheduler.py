"""Continuous batching: which tokens of which requests the next step computes."""

from collections.abc import Iterator, Mapping, Sequence

from anaphora.errors import PromptTooLongError, RequestError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.manager import KVCacheManager
from anaphora.scheduler.arrival_queue import ArrivalQueue
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.decoding import decode, num_decode_steps
from anaphora.scheduler.integrity import check_integrity
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import FinishReason, Request, RequestStatus
from anaphora.scheduler.stats import SchedulerStats
from anaphora.scheduler.step import Step
from anaphora.types import RequestId


class Scheduler:
    """There is no prefill phase: each step lets the computed tokens of requests catch up with the known ones.

    Whole prompts, chunks of them, what a cache hit leaves, single tokens of decoding and what preemption took are then
    one and the same. ``schedule`` and ``update`` (or ``fail``) take turns; ``add`` and ``abort`` come at any moment.
    """

    def __init__(self, config: SchedulerConfig, cache: CacheConfig | KVCacheManager) -> None:
        self.config = config
        self.cache = KVCacheManager(cache) if isinstance(cache, CacheConfig) else cache
        self.stats = SchedulerStats()
        # The last token needs no room: nothing is computed from it any more.
        self._max_tokens = min(config.max_model_len, self.cache.config.num_slots + 1)
        self._requests: dict[RequestId, Request] = {}
        self._waiting = ArrivalQueue()
        self._running = ArrivalQueue()
        self._step: Step | None = None
        self._num_arrived = 0
        self._num_scheduled_steps = 0

    # -- requests come and go ----------------------------------------------------------------------------------------

    @property
    def num_running(self) -> int:
        """Requests that hold blocks."""
        return len(self._running)

    @property
    def running(self) -> Iterator[Request]:
        """Those, in the order of their arrival."""
        return iter(self._running)

    @property
    def num_waiting(self) -> int:
        """Requests that hold none: new, preempted or put back."""
        return len(self._waiting)

    def add(self, request: Request) -> None:
        """Take a request in. It waits behind all earlier ones.

        Raises:
            PromptTooLongError: the prompt, and one token more if any is wanted, can never fit.
            RequestError: a request of this name is here already.
        """
        if request.request_id in self._requests:
            raise RequestError(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        self._check_length(request)
        request.arrive(self._num_arrived, self.cache.config.block_size)
        self._num_arrived += 1
        self._requests[request.request_id] = request
        self._waiting.add(request)

    def abort(self, request_id: RequestId) -> Request | None:
        """End a request now, whatever its state, and free its blocks. ``None`` if there is no such request.

        Between ``schedule`` and ``update`` its part of the step is void, and so is that of every request that was
        going to read the blocks it computes: those wait again.
        """
        request = self._requests.get(request_id)
        if request is None:
            return None
        if self._step is not None and request.status is RequestStatus.RUNNING:
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
        self._schedule_running(step)
        if not step.preempted:
            self._admit_waiting(step)
        if not step.scheduled:
            assert not self._requests, "requests are here, but none can go on"
            return None
        self._step = step
        self._num_scheduled_steps += 1
        return step.close()

    def update(self, output: SchedulerOutput, sampled: Mapping[RequestId, int]) -> list[Request]:
        """Take in the results of a step: one token for each request that ``samples``. Returns those that finished."""
        step = self._open_step(output)
        parts = [part for part in output.scheduled if part.request.status is RequestStatus.RUNNING]
        missing = [part.request for part in parts if part.samples and part.request.request_id not in sampled]
        assert not missing, f"no token was sampled for {missing}"
        self._step = None
        finished: list[Request] = []
        for part in parts:
            self._take_in(part, step, sampled)
            if part.request.is_finished:
                finished.append(part.request)
        self.stats.num_steps += 1
        return finished

    def fail(self, output: SchedulerOutput) -> None:
        """The step was not computed. Its requests are as they were before it, and will be scheduled again."""
        step = self._open_step(output)
        self._step = None
        for part in reversed(output.scheduled):  # who reads another's blocks stands after it
            request = part.request
            if request in step.admitted:
                self._put_back(request, step)
            elif request.status is RequestStatus.RUNNING:
                self.cache.withdraw(request.request_id)
        self.stats.num_failed_steps += 1

    def num_decode_steps(self) -> int:
        """How many of the next steps :meth:`decode` can take at once, if no request comes meanwhile.

        All in which each running request decodes one token, none ends, and none is admitted.
        """
        assert self._step is None, "a step is open"
        num_running, config = len(self._running), self.config
        has_room = num_running < min(config.max_num_seqs, config.max_num_batched_tokens)
        if not num_running or num_running > config.max_num_batched_tokens or (self._waiting and has_room):
            return 0
        return num_decode_steps(self._running, self.cache, self._max_tokens)

    def decode(self, sampled: Mapping[RequestId, Sequence[int]]) -> None:
        """Take several steps at once, at most :meth:`num_decode_steps`: what each running request samples in them."""
        num_steps = decode(self._running, self.cache, sampled, self._num_scheduled_steps)
        self._num_scheduled_steps += num_steps
        self.stats.num_steps += num_steps
        self.stats.num_computed_tokens += num_steps * len(self._running)

    def check_integrity(self) -> None:
        """Audit requests, queues and cache; an ``AssertionError`` names what is wrong."""
        assert len(self._running) + len(self._waiting) == len(self._requests)
        assert len(self._running) <= self.config.max_num_seqs
        check_integrity(list(self._running), list(self._waiting), self.cache, is_between_steps=self._step is None)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _check_length(self, request: Request) -> None:
        wanted = request.num_prompt_tokens + min(1, request.max_tokens)
        if wanted > self.config.max_model_len:
            raise PromptTooLongError(
                f"the prompt has {request.num_prompt_tokens} tokens, but the context length is "
                f"{self.config.max_model_len} tokens for prompt and output: shorten the prompt",
                param="prompt",
                code="context_length_exceeded",
            )
        if request.num_prompt_tokens > self.cache.config.num_slots:
            raise PromptTooLongError(
                f"the prompt has {request.num_prompt_tokens} tokens, but the KV cache holds "
                f"{self.cache.config.num_slots}: shorten the prompt or give the cache more memory",
                param="prompt",
                code="context_length_exceeded",
            )

    def _schedule_running(self, step: Step) -> None:
        index = 0
        while index < len(self._running) and step.budget > 0:
            request = self._running[index]
            num_new_tokens = min(request.num_tokens - request.num_computed_tokens, step.budget)
            if not self._make_room(request, request.num_computed_tokens + num_new_tokens, step):
                break
            step.add(request, num_new_tokens, self.cache.block_ids(request.request_id))
            index += 1

    def _make_room(self, request: Request, num_tokens: int, step: Step) -> bool:
        """Get blocks for a running request, from the latest arrived if need be; ``False`` if that is itself.

        Before a request that runs alone gives up, pins do: they must not keep anybody from being served.
        """
        while self.cache.allocate(request.request_id, num_tokens, step=step.number) is None:
            if len(self._running) == 1 and self.cache.pins.give_way():
                continue
            victim = self._running.last
            self._preempt(victim, step)
            if victim is request:
                return False
        return True

    def _preempt(self, request: Request, step: Step) -> None:
        self.cache.free(request.request_id)
        self._running.remove(request)
        request.preempt()
        self._waiting.add(request)
        step.preempted.append(request.request_id)
        self.stats.num_preemptions += 1

    def _admit_waiting(self, step: Step) -> None:
        while self._waiting and step.budget > 0 and len(self._running) < self.config.max_num_seqs:
            if not self._admit(self._waiting.first, step) and (self._running or not self.cache.pins.give_way()):
                break  # nobody overtakes

    def _admit(self, request: Request, step: Step) -> bool:
        """Let a waiting request run if the step has tokens and the cache has blocks for it."""
        cache = self.cache
        match = cache.match(request.namespace, request.blocks, lookup=request.lookup, step=step.number)
        num_missing = request.num_tokens - match.num_cached_tokens
        num_new_tokens = min(num_missing, step.budget)
        if num_new_tokens < num_missing and not self.config.enable_chunked_prefill:
            return False
        num_tokens = match.num_cached_tokens + num_new_tokens
        if not cache.fits(match, num_tokens):
            return False
        is_first = request.ledger is None
        ledger = request.ledger or cache.explain(match)
        table = cache.admit(request.request_id, match, num_tokens, step=step.number)
        assert table is not None
        if is_first:
            cache.remember_prompt(request.namespace, request.blocks.to_bytes(), request.request_id)
        self._waiting.remove(request)
        self._running.add(request)
        request.admit(match.num_cached_tokens, ledger)
        step.admitted[request] = is_first
        step.add(request, num_new_tokens, table.ids)
        return True

    def _open_step(self, output: SchedulerOutput) -> Step:
        assert self._step is not None, "there is no step to take in"
        assert self._step.output is output, "this is not the output of the last schedule"
        return self._step

    def _take_in(self, part: ScheduledRequest, step: Step, sampled: Mapping[RequestId, int]) -> None:
        request = part.request
        if step.admitted.get(request):
            assert request.ledger is not None
            self.cache.stats.count(request.ledger)
        self.stats.num_recomputed_tokens += request.advance(part.num_new_tokens)
        self.stats.num_computed_tokens += part.num_new_tokens
        self.cache.commit(request.request_id, part.end)
        if part.samples:
            self._append(request, sampled[request.request_id])
        elif part.end == request.num_tokens:  # max_tokens is 0, and the prompt is computed
            self._finish(request, "length")

    def _append(self, request: Request, token_id: int) -> None:
        request.append(token_id)
        num_output = request.num_output_tokens
        if token_id in request.stop_token_ids and num_output >= request.min_tokens:
            self._finish(request, "stop", token_id)
        elif num_output >= request.max_tokens or request.num_tokens >= self._max_tokens:
            self._finish(request, "length")

    def _finish(self, request: Request, reason: FinishReason, stop_reason: int | None = None) -> None:
        """Forget a request and free what it holds."""
        if request.status is RequestStatus.RUNNING:
            self.cache.free(request.request_id)
            self._running.remove(request)
        else:
            self._waiting.remove(request)
        del self._requests[request.request_id]
        request.finish(reason, stop_reason)

    def _void(self, request: Request, step: Step) -> None:
        """The request's part of the step will not be computed: nothing that rests on it counts."""
        for request_id in reversed(self.cache.dependents(request.request_id)):
            self._put_back(self._requests[request_id], step)
        if request in step.admitted:
            self._put_back(request, step)

    def _put_back(self, request: Request, step: Step) -> None:
        """Undo an admission of this step: the request waits again."""
        is_first = step.admitted.pop(request)
        self.cache.free(request.request_id)
        if is_first:
            self.cache.forget_prompt(request.namespace, request.blocks.to_bytes(), request.request_id)
        request.revoke_admission(is_first=is_first)
        self._running.remove(request)
        self._waiting.add(request)
