"""The ledger on small numbers: one test per class and one per border between two. Blocks of 4 tokens."""

from typing import ClassVar

import pytest

from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.ledger import Divergence, Ledger, Reason
from anaphora.kvcache.manager import KVCacheManager
from anaphora.kvcache.token_blocks import TokenBlocks
from anaphora.types import Namespace, RequestId

PROMPT = list(range(100, 110))  # two full blocks and two tokens


class Core:
    """A manager that computes whole prompts at once."""

    def __init__(self, num_blocks: int = 16, **options: int) -> None:
        config = CacheConfig(num_blocks=num_blocks, block_size=4, **options)  # type: ignore[arg-type]
        self.manager = KVCacheManager(config)
        self.num_requests = 0

    def explain(
        self, tokens: list[int], namespace: str = "", *, lookup: bool = True, step: int | None = None
    ) -> Ledger:
        match = self.manager.match(Namespace(namespace), TokenBlocks(tokens, 4), lookup=lookup, step=step)
        return self.manager.explain(match)

    def begin(
        self, tokens: list[int], namespace: str = "", *, step: int = 0, num_tokens: int | None = None
    ) -> RequestId:
        name = RequestId(f"r{self.num_requests}")
        self.num_requests += 1
        packed = TokenBlocks(tokens, 4)
        match = self.manager.match(Namespace(namespace), packed, step=step)
        assert self.manager.admit(name, match, num_tokens or len(tokens), step=step)
        self.manager.remember_prompt(Namespace(namespace), packed.to_bytes(), name)
        return name

    def store(self, tokens: list[int], namespace: str = "") -> None:
        name = self.begin(tokens, namespace)
        self.manager.commit(name, len(tokens))
        self.manager.free(name)
        self.manager.check_integrity()


def test_a_first_prompt_is_new_up_to_its_tail() -> None:
    ledger = Core().explain(PROMPT)
    assert ledger == Ledger(10, {Reason.NEW: 8, Reason.TAIL: 2})
    assert (ledger.num_cached_tokens, ledger.num_queried_tokens) == (0, 10)


def test_a_repeated_prompt_is_reused_up_to_its_tail() -> None:
    core = Core()
    core.store(PROMPT)
    ledger = core.explain(PROMPT)
    assert ledger == Ledger(10, {Reason.REUSED_DEVICE: 8, Reason.TAIL: 2})
    assert (ledger.num_cached_tokens, ledger.num_queried_tokens) == (8, 10)


def test_a_prompt_of_whole_blocks_gives_its_last_block_to_the_last_token() -> None:
    core = Core()
    core.store(PROMPT)
    assert core.explain(PROMPT[:8]).counts == {Reason.REUSED_DEVICE: 4, Reason.LAST_TOKEN: 4}
    assert core.explain(PROMPT[:4]).counts == {Reason.LAST_TOKEN: 4}


def test_without_lookup_every_token_is_bypassed() -> None:
    core = Core()
    core.store(PROMPT)
    ledger = core.explain(PROMPT, lookup=False)
    assert ledger.counts == {Reason.BYPASSED: 10}
    assert (ledger.num_cached_tokens, ledger.num_queried_tokens) == (0, 0)
    off = Core(enable_prefix_caching=False)
    assert off.explain(PROMPT).counts == {Reason.BYPASSED: 10}


def test_blocks_of_another_step_are_in_flight_and_those_of_its_own_are_reused() -> None:
    core = Core()
    core.begin(PROMPT, step=3)
    assert core.explain(PROMPT, step=4).counts == {Reason.IN_FLIGHT: 8, Reason.TAIL: 2}
    assert core.explain(PROMPT[:8]).counts == {Reason.IN_FLIGHT: 8}
    assert core.explain(PROMPT, step=3).counts == {Reason.REUSED_DEVICE: 8, Reason.TAIL: 2}
    assert core.explain(PROMPT[:8], step=3).counts == {Reason.REUSED_DEVICE: 4, Reason.LAST_TOKEN: 4}


class TestInFlight:
    """A request of three blocks of which one is computed."""

    RUNNING: ClassVar[list[int]] = list(range(200, 213))

    def running(self, namespace: str = "", num_blocks: int = 16) -> Core:
        core = Core(num_blocks)
        if num_blocks < 16:  # all that the prompt begins with was cached once
            core.store(self.RUNNING, namespace)
            core.store([90] * 4 * num_blocks, namespace)
        core.begin(self.RUNNING, namespace, num_tokens=4)
        core.manager.commit(RequestId(f"r{core.num_requests - 1}"), 4)
        return core

    def test_what_a_running_request_has_still_to_compute(self) -> None:
        core = self.running()
        assert core.explain(self.RUNNING).counts == {Reason.REUSED_DEVICE: 4, Reason.IN_FLIGHT: 8, Reason.TAIL: 1}
        assert core.explain(self.RUNNING[:8]).counts == {Reason.REUSED_DEVICE: 4, Reason.IN_FLIGHT: 4}

    def test_up_to_where_the_two_part(self) -> None:
        ledger = self.running().explain([*self.RUNNING[:9], 7, 7, 7, 7, 7, 7, 7])
        assert ledger.counts == {
            Reason.REUSED_DEVICE: 4,
            Reason.IN_FLIGHT: 4,
            Reason.DIVERGED: 4,
            Reason.NEW: 4,
        }
        assert ledger.divergence is not None
        assert ledger.divergence.position == 9

    def test_is_in_flight_though_it_was_evicted_before(self) -> None:
        core = self.running(num_blocks=4)
        ledger = core.explain([*self.RUNNING[:8], 7])
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.IN_FLIGHT: 4, Reason.TAIL: 1}
        assert ledger.evicted_blocks_ago is None

    def test_what_it_will_not_compute_is_evicted(self) -> None:
        core = Core(4)
        core.store([*self.RUNNING[:8], 1, 1, 1, 1])
        core.store([90] * 16)
        core.begin(self.RUNNING[:9], num_tokens=4)
        core.manager.commit(RequestId("r2"), 4)
        ledger = core.explain([*self.RUNNING[:8], 1, 1, 1, 1, 1])
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.IN_FLIGHT: 4, Reason.EVICTED: 4, Reason.TAIL: 1}

    def test_not_what_another_tenant_computes(self) -> None:
        core = self.running("x")
        assert core.explain(self.RUNNING, "y").counts == {Reason.ISOLATED: 4, Reason.NEW: 8, Reason.TAIL: 1}

    def test_not_what_a_request_would_have_computed_that_has_gone(self) -> None:
        core = self.running()
        core.manager.free(RequestId("r0"))
        assert core.explain(self.RUNNING).counts == {Reason.REUSED_DEVICE: 4, Reason.NEW: 8, Reason.TAIL: 1}


class TestEvicted:
    def test_what_was_cached_and_had_to_go(self) -> None:
        core = Core(4)
        core.store(PROMPT)
        core.store([90] * 12)  # takes the two blank blocks and the second block of the prompt
        ledger = core.explain(PROMPT)
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.EVICTED: 4, Reason.TAIL: 2}
        assert ledger.evicted_blocks_ago == 1

    def test_its_age_is_counted_in_evictions_of_its_own_namespace(self) -> None:
        core = Core(4)
        core.store(PROMPT, "x")
        core.store([90] * 16, "y")
        core.store([91] * 16, "y")
        ledger = core.explain(PROMPT, "x")
        assert ledger.counts == {Reason.EVICTED: 8, Reason.TAIL: 2}
        assert ledger.evicted_blocks_ago == 1, "of its first block, the last to go"
        assert core.explain([90] * 17, "y").evicted_blocks_ago == 1
        assert core.explain([90] * 17, "y").counts == {Reason.EVICTED: 16, Reason.TAIL: 1}

    def test_beyond_the_bound_the_oldest_eviction_is_forgotten(self) -> None:
        core = Core(3, max_remembered_evictions=2)
        core.store(list(range(12)))
        core.store([90] * 12)
        assert core.explain(list(range(12))).counts == {Reason.EVICTED: 8, Reason.NEW: 4}

    def test_a_memory_of_nothing_knows_of_no_eviction(self) -> None:
        core = Core(3, max_remembered_evictions=0)
        core.store(list(range(12)))
        core.store([90] * 12)
        assert core.explain(list(range(12))).counts == {Reason.NEW: 12}

    def test_computed_again_it_is_evicted_no_longer(self) -> None:
        core = Core(3)
        core.store(PROMPT)
        core.store([90] * 12)
        core.store(PROMPT)
        assert core.explain(PROMPT).counts == {Reason.REUSED_DEVICE: 8, Reason.TAIL: 2}

    def test_of_too_many_namespaces_the_one_used_longest_ago_is_forgotten(self) -> None:
        core = Core(3, max_remembered_namespaces=1)
        core.store(PROMPT, "x")
        core.store([90] * 12, "y")
        assert core.explain(PROMPT, "x").counts == {Reason.NEW: 8, Reason.TAIL: 2}
        core.store(PROMPT, "x")
        assert core.explain([90] * 12, "y").counts == {Reason.NEW: 12}
        assert [extent.num_blocks for extent in core.manager.prefixes.index] == [2], (
            "no place in the index is kept for it"
        )

    def test_a_namespace_is_used_when_a_request_of_it_is_admitted(self) -> None:
        core = Core(max_remembered_namespaces=2)
        for namespace in "xyxz":
            core.store([1, 2, 3, 4, 5], namespace)
        assert [core.manager.prefixes.memory.get(Namespace(n)) is not None for n in "xyz"] == [True, False, True]


class TestIsolated:
    def test_the_operator_sees_that_another_tenant_holds_it(self) -> None:
        core = Core()
        core.store(PROMPT, "x")
        ledger = core.explain(PROMPT, "y")
        assert ledger.counts == {Reason.ISOLATED: 8, Reason.TAIL: 2}
        assert ledger.for_tenant().counts == {Reason.NEW: 8, Reason.TAIL: 2}

    def test_after_what_is_its_own(self) -> None:
        core = Core()
        core.store(PROMPT[:5], "y")
        core.store([*PROMPT, 1, 2], "x")
        ledger = core.explain([*PROMPT, 1, 2, 3, 4, 5, 6], "y")
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.ISOLATED: 8, Reason.NEW: 4}

    def test_a_tenant_sees_its_own_divergence_where_the_operator_sees_isolation(self) -> None:
        core = Core()
        core.store([*PROMPT[:4], 1, 2, 3, 4, 5], "y")
        core.store(PROMPT, "x")
        ledger = core.explain(PROMPT, "y")
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.ISOLATED: 4, Reason.TAIL: 2}
        assert ledger.num_isolated_diverged_tokens == 4
        alone = ledger.for_tenant()
        assert alone.counts == {Reason.REUSED_DEVICE: 4, Reason.DIVERGED: 4, Reason.TAIL: 2}
        assert alone.divergence == Divergence(4, "r0", (1, 2, 3, 4, 5), tuple(PROMPT[4:]))

    def test_what_a_tenant_has_pending_is_not_isolated(self) -> None:
        core = Core()
        core.store(PROMPT, "x")
        core.begin(PROMPT[:5], "y", step=1)
        ledger = core.explain(PROMPT, "y", step=1)
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.ISOLATED: 4, Reason.TAIL: 2}

    def test_what_another_tenant_has_lost_is_new(self) -> None:
        core = Core(3)
        core.store(PROMPT, "x")
        core.store([90] * 12, "y")
        assert core.explain(PROMPT, "y").counts == {Reason.NEW: 8, Reason.TAIL: 2}


class TestDiverged:
    def test_from_the_block_that_differs_to_the_end_of_the_earlier_prompt(self) -> None:
        core = Core()
        core.store(list(range(14)))
        ledger = core.explain([0, 1, 2, 3, 4, 5, 99, 7, *range(8, 20)])
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.DIVERGED: 8, Reason.NEW: 8}
        assert ledger.divergence == Divergence(6, "r0", tuple(range(6, 14)), (99, 7, *range(8, 20)))

    def test_windows_are_sixteen_tokens_long(self) -> None:
        core = Core()
        core.store([1] * 40)
        divergence = core.explain([1] * 8 + [2] * 40).divergence
        assert divergence == Divergence(8, "r0", (1,) * 16, (2,) * 16)

    def test_in_the_first_block(self) -> None:
        core = Core()
        core.store(PROMPT)
        ledger = core.explain([100, 1, 2, 3, 4, 5, 6, 7, 8])
        assert ledger.counts == {Reason.DIVERGED: 8, Reason.TAIL: 1}

    def test_prompts_without_a_common_beginning_have_not_parted(self) -> None:
        core = Core()
        core.store(PROMPT)
        assert core.explain([1, *PROMPT[1:]]).counts == {Reason.NEW: 8, Reason.TAIL: 2}

    def test_parting_in_the_tail_costs_nothing(self) -> None:
        core = Core()
        core.store(PROMPT)
        ledger = core.explain([*PROMPT[:9], 1])
        assert ledger == Ledger(10, {Reason.REUSED_DEVICE: 8, Reason.TAIL: 2})

    @pytest.mark.parametrize("tokens", [[*PROMPT, 1, 2, 3], PROMPT[:9]])
    def test_a_longer_or_shorter_prompt_has_not_parted(self, tokens: list[int]) -> None:
        core = Core(enable_prefix_caching=True)
        core.store(PROMPT)
        assert core.explain(tokens).divergence is None
        assert Reason.DIVERGED not in core.explain(tokens).counts

    def test_tenants_part_from_their_own_prompts_only(self) -> None:
        core = Core()
        core.store(PROMPT, "x")
        ledger = core.explain([*PROMPT[:5], 1, 2, 3, 4], "y")
        assert ledger.counts == {Reason.ISOLATED: 4, Reason.NEW: 4, Reason.TAIL: 1}
        assert ledger.divergence is None

    def test_the_nearest_of_many_prompts_is_the_one_that_counts(self) -> None:
        core = Core(64)
        core.store([1, 2, 3, 4, 5, 6, 7, 8, 9])
        core.store([1, 2, 3, 9, 9, 9, 9, 9, 9, 9, 9, 9])
        core.store([1, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9])
        divergence = core.explain([1, 2, 3, 4, 0, 0, 0, 0]).divergence
        assert divergence is not None
        assert (divergence.position, divergence.earlier_request_id) == (4, "r0")

    def test_an_evicted_block_stays_evicted_in_front_of_what_diverged(self) -> None:
        core = Core(3)
        core.store([*PROMPT[:8], 1, 2, 3, 4])
        core.store([90] * 8)
        ledger = core.explain([*PROMPT[:8], 5, 6, 7, 8])
        assert ledger.counts == {Reason.REUSED_DEVICE: 4, Reason.EVICTED: 4, Reason.DIVERGED: 4}


def test_a_ledger_must_add_up() -> None:
    with pytest.raises(AssertionError):
        Ledger(5, {Reason.NEW: 4})


def test_a_ledger_prints_as_plain_names_and_numbers() -> None:
    ledger = Ledger(10, {Reason.NEW: 8, Reason.TAIL: 2})
    assert str(ledger.counts) == "{'new': 8, 'tail': 2}"
    assert "counts={'new': 8, 'tail': 2}" in repr(ledger)
