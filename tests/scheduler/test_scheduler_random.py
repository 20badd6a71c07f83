"""Random requests, aborts, failures and resets against a cache whose contents are written out.

The fake model writes into every slot the whole prefix that its key and value would stand for, and reads it back through
the block tables: whatever the scheduler shares, evicts, preempts or takes back, a request must find its own past there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

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


@dataclass(frozen=True)
class Burst:
    """Requests that come together and begin alike."""

    prefix: list[int]
    endings: list[list[int]]
    max_tokens: int
    min_tokens: int
    namespace: Namespace
    lookup: bool


BURSTS = st.builds(
    Burst,
    prefix=st.sampled_from([[], [0, 1] * 4, [0, 1] * 6, [0, 1] * 8, [1] * 9]),
    endings=st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=5), min_size=1, max_size=4),
    max_tokens=st.sampled_from([0, 1, 6, 12, 12]),
    min_tokens=st.sampled_from([0, 0, 3]),
    namespace=st.sampled_from([Namespace(""), Namespace(""), Namespace("b")]),
    lookup=st.sampled_from([True, True, True, True, False]),
)


def next_token(tokens: Sequence[int]) -> int:
    """The scripted model: what follows depends on all that stands before. Token 2 is the stop token, a rare one."""
    fingerprint = sum((i + 1) * (token + 1) for i, token in enumerate(tokens)) * 7 // 3
    return STOP if fingerprint % 11 == 0 else fingerprint % 2


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

    def spoil(self, parts: Sequence[ScheduledRequest]) -> None:
        """They were not computed after all."""
        for part in parts:
            self.slots.update(dict.fromkeys(self._slots(part)[part.start :], POISON))

    def run(self, output: SchedulerOutput, void: set[Request]) -> dict[RequestId, int]:
        """Write all, then read all. Parts of requests in ``void`` are not computed: their slots hold rubbish."""
        for part in output.scheduled:
            content = [POISON] * part.num_new_tokens if part.request in void else self._contents(part)[part.start :]
            self.slots.update(zip(self._slots(part)[part.start :], content, strict=True))
        good = [part for part in output.scheduled if part.request not in void]
        for part in good:
            assert [self.slots.get(slot) for slot in self._slots(part)] == self._contents(part), part
        return {part.request.request_id: next_token(_known(part)) for part in good if part.samples}

    @staticmethod
    def _slots(part: ScheduledRequest) -> list[int]:
        return [part.block_table[t // BLOCK] * BLOCK + t % BLOCK for t in range(part.end)]

    @staticmethod
    def _contents(part: ScheduledRequest) -> list[Content]:
        tokens = _known(part)
        return [(part.request.namespace, tokens[: t + 1]) for t in range(part.end)]


def _known(part: ScheduledRequest) -> tuple[int, ...]:
    return tuple(part.request.token_ids(0, part.request.num_tokens))


class World:
    """A scheduler, its model, and what is known of its requests by looking on."""

    def __init__(self, config: SchedulerConfig, cache: CacheConfig) -> None:
        self.config = config
        self.max_len = min(MAX_LEN, cache.num_slots + 1)
        self.scheduler = Scheduler(config, cache)
        self.model = FakeModel()
        self.requests: list[Request] = []
        self.num_recomputed = 0
        self.once_computed: dict[Request, int] = {}

    def alive(self) -> list[Request]:
        return [request for request in self.requests if not request.is_finished]

    # -- what can happen ---------------------------------------------------------------------------------------------

    def add(self, burst: Burst) -> None:
        for ending in burst.endings:
            request = Request(
                request_id=RequestId(f"r{len(self.requests)}"),
                prompt_token_ids=[*burst.prefix, *ending][: self.max_len - 1],
                max_tokens=burst.max_tokens,
                min_tokens=min(burst.min_tokens, burst.max_tokens),
                stop_token_ids=frozenset({STOP}),
                namespace=burst.namespace,
                lookup=burst.lookup,
            )
            self.scheduler.add(request)
            self.requests.append(request)

    def run(self, num_steps: int) -> None:
        for _ in range(num_steps):
            output = self.schedule()
            if output is not None:
                self.take_in(output, self.model.run(output, set()))

    def abort(self, number: int) -> None:
        if alive := self.alive():
            request = alive[number % len(alive)]
            assert self.scheduler.abort(request.request_id) is request
            assert (request.finish_reason, request.status) == ("abort", RequestStatus.FINISHED)
            assert self.scheduler.abort(request.request_id) is None

    def run_and_lose(self, numbers: list[int]) -> None:
        """Requests are aborted between schedule and update: what was to read their blocks must not count either."""
        output = self.schedule()
        if output is None:
            return
        for number in numbers:
            self.abort(number)
            self.scheduler.check_integrity()
        void = {part.request for part in output.scheduled if part.request.status is not RequestStatus.RUNNING}
        self.take_in(output, self.model.run(output, void))

    def run_in_passes(self, events: list[tuple[Any, ...]]) -> None:
        """A device computes passes in the order in which it is given them; their results are taken in later.

        Meanwhile requests come and are aborted, and a pass may fail with all behind it.
        """
        output = self.schedule()
        if output is None:
            return
        passes = [(output, self.model.run(output, set()))]
        for name, *arguments in events:
            if name == "extend":
                if (extension := self.scheduler.extend()) is not None:
                    self.check_output(extension)
                    passes.append((extension, self.model.run(extension, set())))
            elif name == "land":
                self.take_in(*passes.pop(0))
            elif name == "lose":
                first = arguments[0] % len(passes)
                self.model.spoil([part for lost, _ in passes[first:] for part in self.scheduler.expected(lost)])
                self.scheduler.fail(passes[first][0])
                del passes[first:]
            else:
                getattr(self, name)(*arguments)
            self.check_books()
            if not passes:
                return
        for landed in passes:
            self.take_in(*landed)

    def fail(self) -> None:
        output = self.schedule()
        if output is None:
            return
        before = {part.request: part.start for part in output.scheduled}
        self.model.run(output, set(before))
        self.scheduler.fail(output)
        for request, start in before.items():
            running = request.status is RequestStatus.RUNNING
            assert request.num_computed_tokens == (start if running else 0)

    def reset(self) -> None:
        was_reset = self.scheduler.reset_prefix_cache()
        assert was_reset is (self.scheduler.num_running == 0)
        if was_reset:
            self.model.slots.clear()

    # -- what must hold ----------------------------------------------------------------------------------------------

    def schedule(self) -> SchedulerOutput | None:
        output = self.scheduler.schedule()
        assert (output is None) is not bool(self.alive())
        if output is not None:
            self.check_output(output)
        return output

    def check_output(self, output: SchedulerOutput) -> None:
        self.scheduler.check_integrity()
        parts = output.scheduled
        assert self.scheduler.expected(output) == list(parts)
        assert output.num_tokens == sum(part.num_new_tokens for part in parts) <= self.config.max_num_batched_tokens
        assert all(part.num_new_tokens > 0 for part in parts)
        assert len({part.request for part in parts}) == len(parts)
        assert not {part.request.request_id for part in parts} & set(output.preempted)
        for part in parts:
            request = part.request
            assert part.samples is (part.end == request.num_tokens and request.max_tokens > 0)
            assert len(part.block_table) >= -(-part.end // BLOCK)
            assert self.config.enable_chunked_prefill or part.end == request.num_tokens

    def take_in(self, output: SchedulerOutput, sampled: dict[RequestId, int]) -> None:
        parts = self.scheduler.expected(output)
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

    def check_books(self) -> None:
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

    def run_to_the_end(self) -> None:
        """Whatever is still there ends, and then no block is in use."""
        while self.alive():
            self.run(1)
        assert self.scheduler.schedule() is None
        assert self.scheduler.cache.usage == 0
        assert self.scheduler.reset_prefix_cache()
        self.scheduler.check_integrity()
        assert self.scheduler.cache.pool.num_blank == self.scheduler.cache.config.num_blocks


@st.composite
def worlds(draw: st.DrawFn) -> World:
    chunked = draw(st.booleans())
    budget = draw(st.sampled_from([3, 16, 40, 40]))
    config = SchedulerConfig(
        max_num_seqs=draw(st.integers(2, 6)),
        max_num_batched_tokens=budget if chunked else MAX_LEN + budget,
        target_prefill_tokens=draw(st.sampled_from([0, 1, 4, 12])),
        max_model_len=MAX_LEN,
        enable_chunked_prefill=chunked,
    )
    cache = CacheConfig(
        num_blocks=draw(st.sampled_from([2, 5, 6, 8, 8, 20])),
        block_size=BLOCK,
        enable_prefix_caching=draw(st.sampled_from([True, True, True, False])),
        max_remembered_evictions=5,
    )
    return World(config, cache)


NUMBERS = st.integers(0, 5)
ADD = st.tuples(st.just("add"), BURSTS)
RUN = st.tuples(st.just("run"), st.integers(1, 5))
ABORT = st.tuples(st.just("abort"), NUMBERS)
EXTEND, LAND = st.just(("extend",)), st.just(("land",))
PASSES = st.lists(
    st.one_of(EXTEND, EXTEND, EXTEND, LAND, LAND, ABORT, ADD, st.tuples(st.just("lose"), NUMBERS)), max_size=14
)
OPERATIONS = st.lists(
    st.one_of(
        ADD,
        ADD,
        RUN,
        RUN,
        RUN,
        ABORT,
        st.tuples(st.just("run_and_lose"), st.lists(NUMBERS, min_size=1, max_size=2)),
        st.tuples(st.just("run_in_passes"), PASSES),
        st.tuples(st.just("run_in_passes"), PASSES),
        st.tuples(st.just("fail")),
        st.tuples(st.just("reset")),
    ),
    min_size=8,
    max_size=25,
)


@settings(max_examples=400, deadline=None, derandomize=True)
@given(worlds(), OPERATIONS)
def test_whatever_happens_every_request_finds_its_own_past(world: World, operations: list[tuple[Any, ...]]) -> None:
    for name, *arguments in operations:
        getattr(world, name)(*arguments)
        world.check_books()
    world.run_to_the_end()
