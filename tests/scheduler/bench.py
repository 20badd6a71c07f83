"""A scheduler on small numbers: blocks of 4 tokens, audited after every operation."""

from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.output import SchedulerOutput
from anaphora.scheduler.request import Request
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import Namespace, RequestId

Part = tuple[str, int, int]
"""A request's part of a step: its name, and its first token and the one after its last."""


class Bench:
    """Builds requests, runs steps with a scripted model, and says in plain tuples what happened."""

    def __init__(self, config: SchedulerConfig, cache: CacheConfig) -> None:
        self.scheduler = Scheduler(config, cache)
        self.requests: dict[str, Request] = {}

    def add(
        self,
        name: str,
        prompt: list[int],
        max_tokens: int = 1,
        *,
        min_tokens: int = 0,
        stop: frozenset[int] = frozenset(),
        namespace: str = "",
        lookup: bool = True,
    ) -> Request:
        request = Request(
            request_id=RequestId(name),
            prompt_token_ids=prompt,
            max_tokens=max_tokens,
            min_tokens=min_tokens,
            stop_token_ids=stop,
            namespace=Namespace(namespace),
            lookup=lookup,
        )
        self.scheduler.add(request)
        self.requests[name] = request
        return request

    def schedule(self) -> SchedulerOutput:
        output = self.scheduler.schedule()
        assert output is not None
        self.scheduler.check_integrity()
        return output

    def extend(self) -> SchedulerOutput:
        output = self.scheduler.extend()
        assert output is not None
        self.scheduler.check_integrity()
        return output

    def update(self, output: SchedulerOutput, token: int = 7) -> list[str]:
        """Every request samples ``token``. Names of those that finished."""
        sampled = {part.request.request_id: token for part in output.scheduled if part.samples}
        finished = self.scheduler.update(output, sampled)
        self.scheduler.check_integrity()
        return [request.request_id for request in finished]

    def step(self, token: int = 7) -> list[Part]:
        output = self.schedule()
        self.update(output, token)
        return parts(output)

    def drain(self, token: int = 7) -> list[list[Part]]:
        steps = []
        while self.scheduler.num_running + self.scheduler.num_waiting:
            steps.append(self.step(token))
        assert self.scheduler.schedule() is None
        return steps

    def cached(self, name: str) -> int:
        ledger = self.requests[name].ledger
        assert ledger is not None
        return ledger.num_cached_tokens

    def table(self, name: str) -> tuple[int, ...]:
        return self.scheduler.cache.block_ids(RequestId(name))


def parts(output: SchedulerOutput) -> list[Part]:
    return [(part.request.request_id, part.start, part.end) for part in output.scheduled]


def make_bench(
    num_blocks: int = 64,
    budget: int = 100,
    *,
    num_seqs: int = 8,
    max_model_len: int = 100,
    chunked: bool = True,
    caching: bool = True,
    target: int = 0,
) -> Bench:
    config = SchedulerConfig(
        max_num_seqs=num_seqs,
        max_num_batched_tokens=budget,
        target_prefill_tokens=target,
        max_model_len=max_model_len,
        enable_chunked_prefill=chunked,
    )
    return Bench(config, CacheConfig(num_blocks=num_blocks, block_size=4, enable_prefix_caching=caching))
