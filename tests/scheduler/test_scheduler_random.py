"""Random requests, aborts, failures and resets against a cache whose contents are written out.

The fake model writes into every slot the whole prefix that its key and value would stand for, and reads it back through
the block tables: whatever the scheduler shares, evicts, preempts or takes back, a request must find its own past there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.output import ScheduledRequest, SchedulerOutput
from anaphora.scheduler.request import Request, RequestStatus
from anaphora.scheduler.scheduler import Scheduler
from anaphora.types import Namespace, RequestId

BLOCK = 4
MAX_LEN = 30
STOP = 2
POISON = ("poison", ())
Content = tuple[str, tuple[int, ...]]  # a namespace and the tokens up to and including this one

SHARED = [[0] * 9, [0, 1] * 8, [1] * 8]
PROMPTS = st.builds(
    lambda shared, cut, rest: (SHARED[shared][:cut] + rest) or [0],
    st.integers(0, len(SHARED) - 1),
    st.integers(0, 16),
    st.lists(st.integers(0, 1), max_size=5),
)


def next_token(tokens: Sequence[int]) -> int:
    """The scripted model: what follows depends on all that stands before. Token 2 is the stop token."""
    return (sum((i + 1) * (t + 1) for i, t in enumerate(tokens)) * 7 // 3) % 3


def generated(prompt: Sequence[int], max_tokens: int, min_tokens: int, max_len: int) -> list[int]:
    """What a request must produce, whatever happens to it on the way."""
    tokens = list(prompt)
    while len(tokens) < min(len(prompt) + max_tokens, max_len):
        tokens.append(next_token(tokens))
        if tokens[-1] == STOP and len(tokens) - len(prompt) >= min_tokens:
            break
    return tokens[len(prompt) :]


@dataclass
class FakeModel:
    """Slots of KV as text."""

    slots: dict[int, Content] = field(default_factory=dict)

    def run(self, output: SchedulerOutput, void: set[Request]) -> dict[RequestId, int]:
        """Write all, then read all. Parts of requests in ``void`` are not computed: their slots hold rubbish."""
        for part in output.scheduled:
            content = [POISON] * part.num_new_tokens if part.request in void else self._contents(part)[part.start :]
            self.slots.update(zip(self._slots(part)[part.start :], content, strict=True))
        good = [part for part in output.scheduled if part.request not in void]
        for part in good:
            assert [self.slots.get(slot) for slot in self._slots(part)] == self._contents(part), part
        return {part.request.request_id: next_token(part.request.token_ids) for part in good if part.samples}

    @staticmethod
    def _slots(part: ScheduledRequest) -> list[int]:
        return [part.block_table[t // BLOCK] * BLOCK + t % BLOCK for t in range(part.end)]

    @staticmethod
    def _contents(part: ScheduledRequest) -> list[Content]:
        tokens = tuple(part.request.token_ids)
        return [(part.request.namespace, tokens[: t + 1]) for t in range(part.end)]


class SchedulerMachine(RuleBasedStateMachine):
    """Small pools: blocks are evicted, requests preempted, and steps fail or lose requests half-way."""

    @initialize(
        num_blocks=st.integers(2, 14),
        budget=st.integers(1, 24),
        num_seqs=st.integers(1, 5),
        caching=st.sampled_from([True, True, True, False]),
        chunked=st.booleans(),
    )
    def start(self, num_blocks: int, budget: int, num_seqs: int, caching: bool, chunked: bool) -> None:
        self.config = SchedulerConfig(
            max_num_seqs=num_seqs,
            max_num_batched_tokens=budget if chunked else MAX_LEN + budget,
            max_model_len=MAX_LEN,
            enable_chunked_prefill=chunked,
        )
        cache = CacheConfig(
            num_blocks=num_blocks, block_size=BLOCK, enable_prefix_caching=caching, max_remembered_evictions=5
        )
        self.max_len = min(MAX_LEN, num_blocks * BLOCK + 1)
        self.scheduler = Scheduler(self.config, cache)
        self.model = FakeModel()
        self.requests: list[Request] = []
        self.num_aborted_before_first_step = 0
        self.num_recomputed = 0
        self.once_computed: dict[Request, int] = {}

    @rule(
        prompt=PROMPTS,
        max_tokens=st.integers(0, 12),
        min_tokens=st.integers(0, 3),
        namespace=st.sampled_from([Namespace(""), Namespace(""), Namespace("b")]),
        lookup=st.sampled_from([True, True, True, False]),
    )
    def add(self, prompt: list[int], max_tokens: int, min_tokens: int, namespace: Namespace, lookup: bool) -> None:
        request = Request(
            request_id=RequestId(f"r{len(self.requests)}"),
            prompt_token_ids=prompt[: self.max_len - 1],
            max_tokens=max_tokens,
            min_tokens=min(min_tokens, max_tokens),
            stop_token_ids=frozenset({STOP}),
            namespace=namespace,
            lookup=lookup,
        )
        self.scheduler.add(request)
        self.requests.append(request)

    def alive(self) -> list[Request]:
        return [request for request in self.requests if not request.is_finished]

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        request = data.draw(st.sampled_from(self.alive()))
        assert self.scheduler.abort(request.request_id) is request
        assert (request.finish_reason, request.status) == ("abort", RequestStatus.FINISHED)
        assert self.scheduler.abort(request.request_id) is None

    @rule()
    def run_step(self) -> None:
        output = self.scheduler.schedule()
        assert (output is None) is not bool(self.alive())
        if output is not None:
            self.check_output(output)
            self.scheduler.check_integrity()
            self.take_in(output, self.model.run(output, set()))

    @precondition(lambda self: self.alive())
    @rule(data=st.data())
    def lose_requests_in_a_step(self, data: st.DataObject) -> None:
        """Requests are aborted between schedule and update; who was to read their blocks must not count either."""
        output = self.scheduler.schedule()
        assert output is not None
        victims = data.draw(st.lists(st.sampled_from(self.alive()), max_size=3, unique_by=id))
        for victim in victims:
            self.scheduler.abort(victim.request_id)
            self.scheduler.check_integrity()
        void = {part.request for part in output.scheduled if part.request.status is not RequestStatus.RUNNING}
        assert void.issuperset(set(victims) & {part.request for part in output.scheduled})
        self.take_in(output, self.model.run(output, void))

    @precondition(lambda self: self.alive())
    @rule()
    def fail_a_step(self) -> None:
        output = self.scheduler.schedule()
        assert output is not None
        before = {part.request: part.start for part in output.scheduled}
        self.model.run(output, set(before))
        self.scheduler.fail(output)
        for request, start in before.items():
            running = request.status is RequestStatus.RUNNING
            assert request.num_computed_tokens == (start if running else 0)

    @rule()
    def reset(self) -> None:
        was_reset = self.scheduler.reset_prefix_cache()
        assert was_reset is (self.scheduler.num_running == 0)
        if was_reset:
            self.model.slots.clear()

    def check_output(self, output: SchedulerOutput) -> None:
        parts = output.scheduled
        assert output.num_tokens == sum(part.num_new_tokens for part in parts) <= self.config.max_num_batched_tokens
        assert all(part.num_new_tokens > 0 for part in parts)
        assert len({part.request for part in parts}) == len(parts)
        assert len({part.request.request_id for part in parts} & set(output.preempted)) == 0
        for part in parts:
            request = part.request
            assert part.samples is (part.end == request.num_tokens and request.max_tokens > 0)
            assert len(part.block_table) >= -(-part.end // BLOCK)
            if not self.config.enable_chunked_prefill:
                assert part.end == request.num_tokens

    def take_in(self, output: SchedulerOutput, sampled: dict[RequestId, int]) -> None:
        parts = [part for part in output.scheduled if part.request.status is RequestStatus.RUNNING]
        for part in parts:
            seen = self.once_computed.get(part.request, 0)
            self.num_recomputed += max(0, min(seen, part.end) - part.start)
            self.once_computed[part.request] = max(seen, part.end)
        finished = self.scheduler.update(output, sampled)
        assert finished == [part.request for part in parts if part.request.is_finished]
        for request in finished:
            self.check_finished(request)

    def check_finished(self, request: Request) -> None:
        expected = generated(request.prompt_token_ids, request.max_tokens, request.min_tokens, self.max_len)
        assert list(request.output_token_ids) == expected
        stopped = bool(expected) and expected[-1] == STOP and len(expected) >= request.min_tokens
        assert request.finish_reason == ("stop" if stopped else "length")
        assert request.stop_reason == (STOP if stopped else None)

    @invariant()
    def books_balance(self) -> None:
        if not hasattr(self, "scheduler"):
            return
        self.scheduler.check_integrity()
        assert self.scheduler.num_running + self.scheduler.num_waiting == len(self.alive())
        assert self.scheduler.stats.num_recomputed_tokens == self.num_recomputed
        assert sum(request.num_recomputed_tokens for request in self.requests) == self.num_recomputed
        # Every request that has taken part in a step that succeeded is counted, once.
        counted = [request for request in self.requests if request in self.once_computed]
        stats = self.scheduler.cache.stats
        ledgers = [request.ledger for request in counted if request.ledger is not None]
        assert len(ledgers) == len(counted) == stats.num_requests
        assert stats.num_cached_tokens == sum(ledger.num_cached_tokens for ledger in ledgers)
        assert sum(stats.num_tokens_by_reason.values()) == sum(request.num_prompt_tokens for request in counted)

    def teardown(self) -> None:
        """Whatever is still there runs to its end, and then no block is in use."""
        if not hasattr(self, "scheduler"):
            return
        while (output := self.scheduler.schedule()) is not None:
            self.take_in(output, self.model.run(output, set()))
        assert not self.alive()
        assert self.scheduler.cache.usage == 0
        assert self.scheduler.reset_prefix_cache()
        self.scheduler.check_integrity()
        assert self.scheduler.cache.pool.num_blank == self.scheduler.cache.config.num_blocks


TestSchedulerMachine = SchedulerMachine.TestCase
TestSchedulerMachine.settings = settings(max_examples=120, stateful_step_count=30, deadline=None, derandomize=True)
