"""What the cache will do for given requests: the same scheduler, the same cache core, and a scripted model."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from anaphora.kvcache.config import CacheConfig as CacheConfig
from anaphora.kvcache.ledger import Ledger
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.request import Request
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import Namespace, RequestId

UNKNOWN_TOKEN_ID = 2**32 - 1
"""Stands for outputs of which only the number is known. No vocabulary reaches that far: no prompt contains it."""


class SimulatedRequest(NamedTuple):
    """A prompt and what is sampled after it: token ids, or only how many."""

    namespace: Namespace
    prompt_token_ids: Sequence[int]
    output: Sequence[int] | int = 1
    lookup: bool = True

    @property
    def output_token_ids(self) -> Sequence[int]:
        return [UNKNOWN_TOKEN_ID] * self.output if isinstance(self.output, int) else self.output


class Replay:
    """A scheduler and a cache that live through any number of replayed requests.

    Without ``scheduler``, requests may be as long as the cache allows and all other limits are the defaults.

    Raises:
        RequestError: a request is empty, or can never fit.
    """

    def __init__(self, cache: CacheConfig, scheduler: SchedulerConfig | None = None) -> None:
        self.scheduler = Scheduler(scheduler or SchedulerConfig(max_model_len=cache.num_slots + 1), cache)
        self._num_requests = 0

    def run_in_sequence(self, requests: Iterable[SimulatedRequest]) -> list[Ledger]:
        """Each request begins when the one before it has ended. Their ledgers, in order."""
        return [ledger for request in requests for ledger in self.run_together([request])]

    def run_together(self, requests: Iterable[SimulatedRequest]) -> list[Ledger]:
        """All requests are there before the first step. Their ledgers, in the order of the requests."""
        added: list[Request] = []
        script: dict[RequestId, Iterator[int]] = {}
        for simulated in requests:
            request = self._request(simulated)
            self.scheduler.add(request)
            added.append(request)
            script[request.request_id] = iter(simulated.output_token_ids)
        while (output := self.scheduler.schedule()) is not None:
            samples = [part.request.request_id for part in output.scheduled if part.samples]
            self.scheduler.update(output, {request_id: next(script[request_id]) for request_id in samples})
        return [ledger for request in added if (ledger := request.ledger) is not None]

    def reset(self) -> None:
        """Empty the cache, as between two arms of an experiment."""
        was_reset = self.scheduler.reset_prefix_cache()
        assert was_reset, "a replay has ended, but blocks are in use"

    def _request(self, simulated: SimulatedRequest) -> Request:
        self._num_requests += 1
        return Request(
            request_id=RequestId(f"replayed-{self._num_requests}"),
            prompt_token_ids=simulated.prompt_token_ids,
            max_tokens=len(simulated.output_token_ids),
            namespace=simulated.namespace,
            lookup=simulated.lookup,
        )


def predict(
    requests: Iterable[tuple[Namespace, Sequence[int], Sequence[int] | int]],
    cache: CacheConfig,
    *,
    scheduler: SchedulerConfig | None = None,
) -> list[Ledger]:
    """The ledgers of ``(namespace, prompt ids, output ids or their number)``, one request after another, from empty."""
    return Replay(cache, scheduler).run_in_sequence(SimulatedRequest(*request) for request in requests)
