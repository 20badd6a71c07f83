"""What a sample tells of the whole, on numbers worked out by hand and on a trace."""

from pathlib import Path

import numpy as np
import pytest

from anaphora.sim.estimates import RuleCount, SampledCount, as_array, estimate, exact, matching_capacity
from anaphora.sim.lru_curve import LRUCurve
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.references import References
from anaphora.sim.sampled_sweep import SampledSweep
from anaphora.sim.sampling import sample
from anaphora.sim.sweep import RunPlan, Sweep
from anaphora.traces.reader import read_trace

TRACE = Path(__file__).parents[1] / "data" / "traces" / "mooncake_conversation_300.jsonl.gz"


def curve(*uses: int) -> LRUCurve:
    """Of requests of one block each."""
    references = References.of([[block] for block in uses])
    return LRUCurve(references, np.ones(len(uses), np.int64))


WHOLE = curve(0, 0, 1, 0, 2, 3, 1, 2, 3, 4, 5, 6, 7, 4)  # distances 0, 1, 3, 2, 2 and 3
PART = curve(0, 0, 1, 2, 0, 1)  # distances 0, 2 and 2


def test_curves_count_what_is_nearer_than_the_capacity() -> None:
    assert [WHOLE.num_hits(n) for n in (0, 1, 2, 3, 4, None)] == [0, 1, 2, 4, 6, 6]
    assert PART.hits_by_request(1).tolist() == [0, 1, 0, 0, 0, 0]
    assert PART.hits_by_request(None).tolist() == [0, 1, 0, 0, 1, 1]
    assert [PART.least_capacity(share) for share in (0.0, 0.3, 0.34, 1.0)] == [1, 1, 3, 3]
    tree = LRUCurve(References.of([[0, 1, 2], [0, 1, 2]]), np.ones(6, np.int64))
    assert [tree.depth_of(share) for share in (0.3, 0.6, 1.0)] == [0, 1, 2]
    assert [tree.num_hits_deeper_than(n) for n in (1, 2, 3)] == [2, 1, 0]


def test_the_samples_cache_serves_lru_as_much_as_the_whole_one() -> None:
    whole, part = RuleCount(WHOLE, 14, 1), RuleCount(PART, 6, 1)
    assert matching_capacity(whole, part, 4, 0.5) == 2, "in proportion, which is enough"
    assert matching_capacity(whole, part, 5, 0.2) == 1, "LRU would need 4 blocks, but no prompt is that deep"
    assert matching_capacity(whole, RuleCount(curve(0, 1, 2), 3, 1), 10, 0.5) == 5, "the sample has no reuse"
    tree = References.of([[0, 1, 2, 3], [4], [0, 1, 2, 3]])  # distances 1, 2, 3 and 4
    deep = RuleCount(LRUCurve(tree, np.ones(9, np.int64)), 9, 1)
    assert matching_capacity(whole, deep, 4, 0.4) == 2 + round(0.6 * 3), "two of three reuses need 5, and may have 4"
    assert matching_capacity(whole, deep, 3, 0.4) == 3, "one of three reuses: two of four"
    assert matching_capacity(whole, deep, 100, 0.5) == 50


def test_a_policy_closes_the_same_share_of_the_gap() -> None:
    groups = as_array([0, 0, 1, 2, 0, 1])
    # LRU serves 1 of 3 reuses in the sample's cache of 2 blocks; the policy serves 2, half of what LRU leaves.
    sampled = SampledCount(as_array([0, 1, 0, 0, 1, 0]), groups, 0.5, 2)
    found = estimate(RuleCount(WHOLE, 14, 1), 3, RuleCount(PART, 6, 1), sampled)
    assert found.rate == (2 + (6 - 2) / 2) / 14
    # Group 0 closes 1 of 1, group 1 none of 1, group 2 has no gap: residuals 1/2, -1/2 and 0 of 2, weights 1/2, 1/2, 0.
    jackknife, one_more = 3 / 2 * (0.25**2 + 0.25**2), 0.5**2 + 0.5**2
    assert found.error == pytest.approx((6 - 2) / 14 * (0.5 * (jackknife + one_more**2)) ** 0.5)


def test_a_policy_worse_than_lru_keeps_the_same_share() -> None:
    sampled = SampledCount(as_array([0, 0, 0, 0, 1, 0]), as_array([0, 0, 1, 2, 0, 1]), 0.5, 4)
    found = estimate(RuleCount(WHOLE, 14, 1), 3, RuleCount(PART, 6, 1), sampled)
    assert found.rate == pytest.approx(2 / 3 / 14)


def test_one_group_tells_nothing_of_others() -> None:
    sampled = SampledCount(as_array([0, 1, 0, 0, 1, 0]), as_array([0] * 6), 0.5, 2)
    assert estimate(RuleCount(WHOLE, 14, 1), 3, RuleCount(PART, 6, 1), sampled).error is None


def test_lru_and_unbounded_caches_are_known() -> None:
    count = RuleCount(WHOLE, 14, 1)
    assert exact(count, None) == (6 / 14, 0.0)
    assert exact(count, 3) == (2 / 14, 2 / 14)
    assert exact(count._replace(num_extra=0), 3) == (4 / 14, 0.0)


def test_estimates_of_a_trace_are_nearer_than_the_samples_own_rates() -> None:
    prompts = cut_into_blocks(read_trace(TRACE))
    whole, drawn = Sweep(prompts), sample(prompts, 0.5)
    plans = [RunPlan(policy, n) for policy in ("lru", "slru", "belady") for n in (400, 3200)] + [RunPlan("lru", None)]
    truth = whole.run_all(plans, lambda num_done: None)
    estimated = SampledSweep(whole, drawn).run_all(plans, lambda num_done: None)
    for true, found in zip(truth, estimated, strict=True):
        expected, got = true.to_json(), found.to_json()
        assert got["capacity_blocks"] == expected["capacity_blocks"]
        assert got["num_requests"] == len(drawn.prompts)
        assert set(expected) < set(got)
        if true.plan.policy == "lru":
            for rule in ("", "trace_rule_"):
                assert got[f"{rule}token_hit_rate"] == pytest.approx(expected[f"{rule}token_hit_rate"], abs=1e-3)
    rates = [true.to_json()["token_hit_rate"] for true in truth]
    corrected, own = (
        sum(abs(run.to_json()[name] - rate) for run, rate in zip(estimated, rates, strict=True))
        for name in ("token_hit_rate", "sampled_token_hit_rate")
    )
    assert corrected < 0.6 * own
