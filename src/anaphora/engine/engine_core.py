"""The engine's heart, one synchronous ``step()``: schedule, run, update. Token ids only: no text, no asyncio."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.begun_passes import BegunPasses, PassError
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.model_runner import Runner
from anaphora.engine.request import GenerationRequest, check_request
from anaphora.engine.sampler import SampledToken
from anaphora.engine.stats import EngineCounters, EngineStats, take_snapshot
from anaphora.errors import EngineDeadError, EngineStepError, PinError, RequestError, StepMemoryError
from anaphora.kvcache.pins import Pin
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import Request
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import Namespace, RequestId

MAX_FAILED_STEPS = 3
"""So many steps in a row may fail before the engine gives up."""

logger = logging.getLogger(__name__)


class EngineCore:
    """Scheduler and model runner, joined. Not thread-safe: one thread owns it."""

    def __init__(
        self,
        scheduler: Scheduler,
        runner: Runner,
        *,
        vocab_size: int,
        eos_token_ids: tuple[int, ...],
        seed: int = 0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``clock`` tells pins the time, in seconds."""
        self.scheduler = scheduler
        self.clock = clock
        self._counters = EngineCounters()
        self._passes = BegunPasses(scheduler, runner)
        self._vocab_size = vocab_size
        self._eos_token_ids = eos_token_ids
        self._seed = seed
        self._num_added = 0
        self._num_failed_in_a_row = 0
        self._failures: list[CoreOutput] = []
        """Of passes that failed, to be told by the next step that ends."""
        self._active: dict[RequestId, ActiveRequest] = {}

    @property
    def runner(self) -> Runner:
        """What computes the passes."""
        return self._passes.runner

    def add(self, request: GenerationRequest) -> None:
        """Queue a request.

        Raises:
            RequestError: it can never run, or its id is taken.
        """
        if request.request_id in self._active:
            raise RequestError(f"request id {request.request_id!r} is in use: choose another", param="request_id")
        check_request(request, max_model_len=self.scheduler.config.max_model_len, vocab_size=self._vocab_size)
        active = ActiveRequest(request, eos_token_ids=self._eos_token_ids, key=(self._seed, 1 + self._num_added))
        self.scheduler.add(active.scheduled)
        self._active[request.request_id] = active
        self._num_added += 1

    def abort(self, request_id: RequestId) -> list[CoreOutput]:
        """Forget a request and release its blocks. Its last output; none if it is unknown or has had that already."""
        active = self._active.pop(request_id, None)
        if active is None:
            return []
        self.scheduler.abort(request_id)
        self._counters.num_finished["abort"] += 1
        return [
            CoreOutput(
                request_id,
                time.monotonic(),
                finish_reason="abort",
                ledger=active.scheduled.ledger,
                num_recomputed_tokens=active.scheduled.num_recomputed_tokens,
                scheduled_s=active.first_scheduled_s,
            )
        ]

    def step(self) -> list[CoreOutput] | None:
        """Advance requests by a pass: take in the next one that was begun; ``None`` when there is nothing to do.

        Before that the device is given one more to go on with, if there is one (:meth:`Scheduler.extend`). If the model
        raises, the requests of the pass end with an error and all others go on.

        Raises:
            EngineDeadError: too many passes have failed in a row.
        """
        self.scheduler.cache.pins.expire(self.clock())
        if not self._passes:
            output = self.scheduler.schedule()
            if output is None and not self._failures:
                return None
            self._begin(output)
        if self._passes and self._passes.has_room:
            self._begin(self.scheduler.extend())
        outputs = self._take_in() if self._passes else []
        failures, self._failures = self._failures, []
        return failures + outputs

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block; ``False`` while blocks are in use, and then nothing was forgotten."""
        return self.scheduler.reset_prefix_cache()

    def pin(
        self, name: str, namespace: Namespace, token_ids: Sequence[int], time_to_live_s: float | None = None
    ) -> Pin:
        """Keep a cached prefix, for a time or until it is let go. A pin of the same name is replaced.

        Raises:
            PinError: nothing of it is cached, or more would be pinned than may be.
            RequestError: something in it is no token id.
        """
        cache = self.scheduler.cache
        if not cache.config.enable_prefix_caching:
            raise PinError("prefix caching is off, so there is nothing to pin: start with enable_prefix_caching")
        tokens = TokenBlocks(token_ids, cache.config.block_size)
        return cache.pins.add(name, namespace, tokens, now_s=self.clock(), time_to_live_s=time_to_live_s)

    def unpin(self, name: str) -> bool:
        """Let a pin go; ``False`` if there is none of that name."""
        return self.scheduler.cache.pins.remove(name)

    def pins(self) -> tuple[Pin, ...]:
        """The pins whose time is not over."""
        self.scheduler.cache.pins.expire(self.clock())
        return self.scheduler.cache.pins.all()

    def cache_tree(self, namespace: Namespace | None = None, max_nodes: int | None = None) -> list[TreeNode]:
        """What stands in the prefix index: of one namespace, or of all; at most the first ``max_nodes``."""
        return self.scheduler.cache.tree(namespace, max_nodes)

    def cache_namespaces(self) -> list[Namespace]:
        """The namespaces that have anything in the prefix index."""
        return self.scheduler.cache.prefixes.index.namespaces

    def stats(self) -> EngineStats:
        """A picture of now."""
        return take_snapshot(self.scheduler, self._counters)

    def _begin(self, output: SchedulerOutput | None) -> None:
        """Have a pass computed, if there is one."""
        if output is not None:
            self._note_schedule(output)
            try:
                self._passes.begin(output, self._active)
            except PassError as failure:
                self._fail(failure)

    def _take_in(self) -> list[CoreOutput]:
        """What comes of the first pass that was begun."""
        try:
            parts, sampled = self._passes.take_in(self._active)
        except PassError as failure:
            self._fail(failure)
            return []
        self._num_failed_in_a_row = 0
        return self._outputs(parts, sampled)

    def _note_schedule(self, output: SchedulerOutput) -> None:
        now = time.monotonic()
        for item in output.scheduled:
            active = self._active[item.request.request_id]
            if active.first_scheduled_s is None:
                active.first_scheduled_s = now

    def _outputs(
        self, parts: Sequence[ScheduledRequest], sampled: Mapping[RequestId, SampledToken]
    ) -> list[CoreOutput]:
        now = time.monotonic()
        self._counters.num_output_tokens += len(sampled)
        outputs = []
        for item in parts:
            request = item.request
            token = sampled.get(request.request_id)
            if token is not None or request.finish_reason is not None:
                outputs.append(self._output(request, token, now))
        return outputs

    def _output(self, request: Request, token: SampledToken | None, now: float) -> CoreOutput:
        request_id, finish_reason = request.request_id, request.finish_reason
        active = self._active[request_id]
        if finish_reason is not None:
            del self._active[request_id]
            self._counters.num_finished[finish_reason] += 1
        return CoreOutput(
            request_id,
            now,
            token_id=None if token is None else token.token_id,
            logprobs=None if token is None else token.logprobs,
            prompt_logprobs=None if active.prompt_logprobs is None else active.prompt_logprobs.take(),
            finish_reason=finish_reason,
            stop_reason=None if finish_reason is None else active.stop_reason,
            ledger=request.ledger,
            num_recomputed_tokens=request.num_recomputed_tokens,
            scheduled_s=active.first_scheduled_s,
        )

    def _fail(self, failure: PassError) -> None:
        """End the requests of a pass that failed, one output each. Those of a pass behind it wait again."""
        cause = failure.__cause__
        assert isinstance(cause, Exception)
        logger.error("%s", failure, exc_info=cause)
        self._num_failed_in_a_row += not isinstance(cause, StepMemoryError)
        for request_id in failure.request_ids:
            self.abort(request_id)
        self._failures += [CoreOutput.failed(request_id, _step_error(cause)) for request_id in failure.request_ids]
        if self._num_failed_in_a_row >= MAX_FAILED_STEPS:
            raise EngineDeadError(f"{MAX_FAILED_STEPS} steps in a row failed, the last with: {cause!r}") from cause


def _step_error(cause: Exception) -> EngineStepError:
    """One for each request; what the model said is for the log, not for the client."""
    if isinstance(cause, StepMemoryError):
        return StepMemoryError(str(cause))
    error = EngineStepError("the model failed while computing this request: send it again")
    error.__cause__ = cause
    return error
