"""A state machine over the core under every eviction policy: ten thousand steps beside the naive cache."""

from collections import Counter

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from tests.kvcache.policy_world import BEGINNINGS, CHUNKS, CUTS, NAMESPACES, PolicyWorld
from tests.kvcache.test_manager_random import BLOCK

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import EVICTION_POLICIES
from anaphora.types import Namespace

NUM_STEPS = 10_000
STEPS_PER_RUN = 100
POLICIES = sorted(EVICTION_POLICIES)
RUNS_PER_POLICY = -(-NUM_STEPS // (STEPS_PER_RUN * len(POLICIES)))

prompts = st.builds(
    lambda shared, cut, rest: (*shared[:cut], *rest),
    st.sampled_from(BEGINNINGS),
    st.sampled_from(CUTS),
    st.lists(st.integers(0, 1), min_size=1, max_size=4),
)
namespaces = st.sampled_from(NAMESPACES)
numbers = st.integers(0, 3)
pins = st.sampled_from(["p", "q"])
chunks = st.sampled_from(CHUNKS)


class CacheMachine(RuleBasedStateMachine):
    """Rules are the operations of :class:`PolicyWorld`; it checks everything after each of them."""

    policy = ""
    done: Counter[str]

    @initialize(
        num_blocks=st.sampled_from([4, 6, 8, 12]),
        evictions=st.sampled_from([1, 3, 20]),
        num_prompts=st.sampled_from([1, 9]),
        num_namespaces=st.sampled_from([1, 3]),
    )
    def begin(self, num_blocks: int, evictions: int, num_prompts: int, num_namespaces: int) -> None:
        self.world = PolicyWorld(
            CacheConfig(
                num_blocks=num_blocks,
                block_size=BLOCK,
                eviction_policy=self.policy,
                max_remembered_evictions=evictions,
                max_remembered_prompts=num_prompts,
                max_remembered_namespaces=num_namespaces,
            )
        )

    @rule(namespace=namespaces, prompt=prompts, lookup=st.sampled_from([True, True, True, False]), chunk=chunks)
    def admit(self, namespace: Namespace, prompt: tuple[int, ...], lookup: bool, chunk: int) -> None:
        self.world.admit(namespace, prompt, lookup, chunk)

    @rule(namespace=namespaces, prompt=prompts)
    def serve(self, namespace: Namespace, prompt: tuple[int, ...]) -> None:
        self.world.serve(namespace, prompt)

    @rule(namespace=namespaces, prompts=st.lists(prompts, min_size=2, max_size=2))
    def serve_two(self, namespace: Namespace, prompts: list[tuple[int, ...]]) -> None:
        for prompt in prompts:
            self.world.serve(namespace, prompt)

    @rule(number=numbers, chunk=chunks, token=st.integers(0, 1))
    def allocate(self, number: int, chunk: int, token: int) -> None:
        self.world.allocate(number, chunk, token)

    @rule()
    def take_in(self) -> None:
        self.world.take_in()

    @rule(number=numbers)
    def withdraw(self, number: int) -> None:
        self.world.withdraw(number)

    @rule(number=numbers)
    def free(self, number: int) -> None:
        self.world.free(number)

    @rule(name=pins, namespace=namespaces, prompt=prompts)
    def pin(self, name: str, namespace: Namespace, prompt: tuple[int, ...]) -> None:
        self.world.pin(name, namespace, prompt)

    @rule(name=pins)
    def unpin(self, name: str) -> None:
        self.world.unpin(name)

    @rule()
    def next_step(self) -> None:
        self.world.next_step()

    @rule(everybody_leaves=st.booleans())
    def reset(self, everybody_leaves: bool) -> None:
        if everybody_leaves:
            self.world.stop_all()
        self.world.reset()

    @invariant()
    def books_balance(self) -> None:
        if hasattr(self, "world"):
            self.world.check()
            self.done["steps"] += 1

    def teardown(self) -> None:
        stats = self.world.cache.stats
        self.done["evicted blocks"] += stats.num_evicted_blocks
        self.done["resets"] += self.world.num_resets
        self.done["pins"] += self.world.num_pins
        self.done["events"] += self.world.mirror.num_events


@pytest.mark.parametrize("policy", POLICIES)
def test_the_core_does_what_the_naive_cache_does_under_every_policy(policy: str) -> None:
    done: Counter[str] = Counter()
    machine = type("Machine", (CacheMachine,), {"policy": policy, "done": done})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=RUNS_PER_POLICY,
            stateful_step_count=STEPS_PER_RUN,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.generate, Phase.shrink],
        ),
    )
    assert done["steps"] >= NUM_STEPS / len(POLICIES)
    assert done["evicted blocks"] > 100
    assert done["resets"] > 10
    assert done["pins"] > 10
