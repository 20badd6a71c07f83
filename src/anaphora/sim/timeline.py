"""Requests through the engine's scheduler and cache core in simulated time: a clock that a latency model moves.

As in the engine, requests that come while a step runs wait for its end; then the next step is scheduled. No time
passes between two steps.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from anaphora.errors import PromptTooLongError
from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.output import SchedulerOutput
from anaphora.scheduler.request import Request
from anaphora.scheduler.scheduler import Scheduler
from anaphora.sim.latency import MS_PER_S, LatencyModel, StepWork, work_of
from anaphora.sim.served import ServedRequest, TimedRequest, Timeline
from anaphora.types import RequestId

Progress = Callable[[int], None]


def run_timeline(
    requests: Iterable[TimedRequest],
    *,
    cache: CacheConfig,
    scheduler: SchedulerConfig,
    latency: LatencyModel,
    progress: Progress = lambda num_done: None,
) -> Timeline:
    """Serve ``requests``, which come in the order of their arrival. ``progress`` is told of requests done.

    They are named as :class:`anaphora.sim.predict.Replay` names them. Prompts that can never fit are refused, as the
    engine does.
    """
    return _Clockwork(requests, Scheduler(scheduler, cache), latency, progress).run()


class _Clockwork:
    """The loop's state."""

    def __init__(
        self, requests: Iterable[TimedRequest], scheduler: Scheduler, latency: LatencyModel, progress: Progress
    ) -> None:
        self._arrivals = _Arrivals(requests, latency.overhead_ms / MS_PER_S)
        self._scheduler = scheduler
        self._latency = latency
        self._progress = progress
        self._timeline = Timeline()
        self._served: dict[RequestId, ServedRequest] = {}
        self._silent: dict[RequestId, ServedRequest] = {}
        """Those of them that have no token yet."""
        self._outputs: dict[RequestId, Iterator[int]] = {}
        self._now_s = 0.0
        # Nobody overtakes, so requests beyond what one step could admit need not be made yet: that saves memory.
        config = scheduler.config
        self._num_ahead = min(config.max_num_seqs, config.max_num_batched_tokens)

    def run(self) -> Timeline:
        scheduler, timeline = self._scheduler, self._timeline
        while True:
            self._take_arrivals()
            if (num_steps := scheduler.num_decode_steps()) > 1:
                self._decode(num_steps)
                continue
            output = scheduler.schedule()
            if output is None:
                upcoming_s = self._arrivals.next_s
                if upcoming_s is None:
                    break
                self._now_s = max(self._now_s, upcoming_s)
                continue
            self._step(output)
        timeline.num_preemptions = scheduler.stats.num_preemptions
        timeline.num_recomputed_tokens = scheduler.stats.num_recomputed_tokens
        timeline.num_computed_tokens = scheduler.stats.num_computed_tokens
        timeline.num_evicted_blocks = scheduler.cache.stats.num_evicted_blocks
        return timeline

    def _take_arrivals(self) -> None:
        """Hand over requests that have come, as many as the scheduler may want to look at."""
        while self._scheduler.num_waiting < self._num_ahead and (timed := self._arrivals.take(self._now_s)):
            self._add(timed)

    def _add(self, timed: TimedRequest) -> None:
        asked, timeline, output = timed.asked, self._timeline, timed.asked.output_token_ids
        served = ServedRequest(timed.arrival_s, len(asked.prompt_token_ids))
        timeline.requests.append(served)
        request = Request(
            request_id=RequestId(f"replayed-{len(timeline.requests)}"),
            prompt_token_ids=asked.prompt_token_ids,
            max_tokens=len(output),
            namespace=asked.namespace,
            lookup=asked.lookup,
        )
        try:
            self._scheduler.add(request)
        except PromptTooLongError as error:
            served.refusal = str(error)
            self._progress(1)
            return
        self._served[request.request_id] = self._silent[request.request_id] = served
        self._outputs[request.request_id] = iter(output)

    def _step(self, output: SchedulerOutput) -> None:
        """Compute for as long as the model says, and note what became of whom."""
        timeline, begin_s = self._timeline, self._now_s
        step_ms = self._latency.milliseconds(work_of(output))
        self._now_s = end_s = begin_s + step_ms / MS_PER_S
        timeline.num_steps += 1
        timeline.busy_s += step_ms / MS_PER_S
        timeline.max_running = max(timeline.max_running, len(output.scheduled))
        silent, outputs = self._silent, self._outputs
        sampled: dict[RequestId, int] = {}
        for part in output.scheduled:
            request_id = part.request.request_id
            if part.samples:
                sampled[request_id] = next(outputs[request_id])
            served = silent.get(request_id)
            if served is not None:
                if served.scheduled_s is None:
                    served.scheduled_s = begin_s
                served.own_ms += step_ms
                if part.samples:
                    served.first_token_s = end_s
                    del silent[request_id]
        for request in self._scheduler.update(output, sampled):
            self._end(request, end_s)

    def _decode(self, max_steps: int) -> None:
        """The same for steps in which all decode, at once, until somebody comes whom the scheduler would look at."""
        scheduler, timeline = self._scheduler, self._timeline
        running = list(scheduler.running)
        num_running, num_steps = len(running), 0
        num_read = sum(request.num_tokens for request in running)
        takes_arrivals = scheduler.num_waiting < self._num_ahead
        upcoming_s = self._arrivals.next_s if takes_arrivals else None
        while num_steps < max_steps and (upcoming_s is None or upcoming_s > self._now_s):
            step_ms = self._latency.milliseconds(StepWork(1, num_running, num_running, num_read, num_read))
            self._now_s += step_ms / MS_PER_S
            timeline.busy_s += step_ms / MS_PER_S
            num_read += num_running
            num_steps += 1
        timeline.num_steps += num_steps
        timeline.max_running = max(timeline.max_running, num_running)
        ids = [request.request_id for request in running]
        scheduler.decode({request_id: list(islice(self._outputs[request_id], num_steps)) for request_id in ids})

    def _end(self, request: Request, end_s: float) -> None:
        served = self._served.pop(request.request_id)
        self._silent.pop(request.request_id, None)  # if no token was wanted
        del self._outputs[request.request_id]
        served.finished_s = self._timeline.end_s = end_s
        served.num_output_tokens = request.num_output_tokens
        served.num_recomputed_tokens = request.num_recomputed_tokens
        served.ledger = request.ledger
        self._progress(1)


class _Arrivals:
    """Requests on their way to the scheduler, which they reach some time after their arrival."""

    def __init__(self, requests: Iterable[TimedRequest], overhead_s: float) -> None:
        self._requests = iter(requests)
        self._overhead_s = overhead_s
        self._upcoming = next(self._requests, None)

    @property
    def next_s(self) -> float | None:
        """When the next one reaches the scheduler; ``None`` if there is none."""
        return None if self._upcoming is None else self._upcoming.arrival_s + self._overhead_s

    def take(self, now_s: float) -> TimedRequest | None:
        """The next one, if it is there by now."""
        upcoming = self._upcoming
        if upcoming is None or upcoming.arrival_s + self._overhead_s > now_s:
            return None
        self._upcoming = next(self._requests, None)
        return upcoming
