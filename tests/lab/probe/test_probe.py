"""The whole probe against planted caches: what is told is what was planted, or it is not told at all."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from anaphora.lab.probe.finding import Bound, Confidence
from anaphora.lab.probe.settings import costs
from tests.lab.probe.planted import Blocks, Cache, CoreCache, Off, PlantedServer, Slots
from tests.lab.probe.probing import found, probe_of


@pytest.mark.parametrize(
    ("tells", "policy", "block_size", "num_blocks"),
    [
        ("usage", "lru", 1, 7000),
        ("metrics", "fifo", 1, 7000),
        *((tells, "lru", 16, 500) for tells in ("usage", "usage unless 0", "metrics")),
        *(("usage", policy, size, blocks) for policy in ("lru", "fifo") for size, blocks in ((32, 700), (128, 64))),
    ],
)
def test_our_own_cache_core(tells: str, policy: str, block_size: int, num_blocks: int) -> None:
    cache = CoreCache(num_blocks=num_blocks, block_size=block_size, policy=policy)
    findings = found(PlantedServer(cache, tells=tells))
    assert findings["reuse"].value == "yes"
    assert findings["block_size"].value == block_size
    assert findings["block_size"].confidence is Confidence.COUNTED
    if block_size > 1:
        assert findings["minimum"].value == block_size
        assert findings["held_back"].value == "the last token, with its block"
    else:
        assert findings["minimum"].bound is Bound.AT_MOST
        assert findings["held_back"].value == "the last token"
    assert findings["branches"].value == "yes"
    assert findings["salts"].value == "yes"
    assert findings["retention"].answer == "at least 60 seconds"
    eviction, capacity = findings["eviction"], findings["capacity"]
    assert eviction.value is None or policy.upper() in str(eviction.value)
    assert capacity.low is not None
    assert capacity.high is not None
    truth = num_blocks * block_size
    assert capacity.low <= truth <= capacity.high
    assert capacity.high - capacity.low <= 0.2 * truth


@pytest.mark.parametrize("policy", ["default", "slru", "s3fifo"])
def test_what_does_not_go_by_age_is_told_by_its_reach_and_its_size_is_left_open(policy: str) -> None:
    """The reach of a prompt that was asked for once: our own policy's is about the cache's size, that of policies which
    keep what was used twice is a part of it."""
    capacity = found(PlantedServer(CoreCache(num_blocks=1000, policy=policy)))["capacity"]
    assert capacity.question == "How much may come before a prompt is lost?"
    said = ("the cache's size may be less, or more", "the cache's size if", "as if their number counted")
    assert any(text in capacity.evidence for text in said)
    assert capacity.confidence is Confidence.LIKELY


def test_our_own_policy_is_reckoned_nearly_right() -> None:
    """It is neither LRU nor FIFO: what it learns from the probe's own return visits moves the bounds a little."""
    findings = found(PlantedServer(CoreCache(num_blocks=1000, policy="default")))
    assert findings["capacity"].confidence is Confidence.LIKELY
    assert isinstance(findings["capacity"].value, float)
    assert findings["capacity"].value == pytest.approx(16_000, rel=0.15)


@pytest.mark.parametrize("num_held_back_blocks", [0, 1])
@pytest.mark.parametrize(("block_size", "minimum"), [(16, 0), (16, 256), (64, 0), (128, 1024), (784, 0)])
def test_what_other_servers_do(block_size: int, minimum: int, num_held_back_blocks: int) -> None:
    cache = Blocks(block_size, minimum=minimum, num_held_back_blocks=num_held_back_blocks)
    findings = found(PlantedServer(cache), max_wait_s=2, max_tokens=400_000)
    assert findings["block_size"].value == block_size, findings["block_size"]
    assert findings["minimum"].value == max(block_size, minimum), findings["minimum"]
    expected = "the last token's block and one more" if num_held_back_blocks else "the last token, with its block"
    assert findings["held_back"].value == expected, findings["held_back"]


def test_nothing_held_back_is_told_from_the_last_token() -> None:
    findings = found(PlantedServer(Blocks(16, holds_back_last_token=False)), max_wait_s=0)
    assert findings["held_back"].value == "nothing"


@pytest.mark.parametrize("num_slots", [2, 4, 7])
def test_slots_are_counted_as_prompts(num_slots: int) -> None:
    findings = found(PlantedServer(Slots(num_slots)))
    assert findings["block_size"].value == 1
    assert findings["branches"].value == "no, it replaces it"
    assert (findings["capacity"].value, findings["capacity"].unit) == (num_slots, "prompts"), findings["capacity"]
    assert findings["eviction"].evidence == f"the cache holds {num_slots} prompts: too few to see an order"
    minimum = findings["minimum"]
    assert minimum.unit == "% of the prompt"
    assert minimum.value is not None
    assert float(minimum.value) == pytest.approx(10, abs=1)
    assert findings["retention"].bound is Bound.AT_LEAST or findings["retention"].value is None


@pytest.mark.parametrize("retention_s", [3.0, 11.0, 37.0])
def test_retention_is_bracketed_and_age_is_not_taken_for_want_of_room(retention_s: float) -> None:
    server = PlantedServer(Blocks(16, retention_s=retention_s), token_ms=0.1)
    findings = found(server, max_wait_s=60)
    retention, capacity = findings["retention"], findings["capacity"]
    assert retention.low is not None
    assert retention.high is not None
    assert retention.low <= retention_s <= retention.high
    assert retention.high <= 2.5 * retention.low
    assert capacity.bound is Bound.AT_LEAST or capacity.value is None, capacity


def test_a_cache_without_end_is_at_least_so_large() -> None:
    capacity = found(PlantedServer(Blocks(16)), max_wait_s=0)["capacity"]
    assert capacity.bound is Bound.AT_LEAST
    assert capacity.low is not None
    assert 50_000 < capacity.low < 200_000


@pytest.mark.parametrize(
    ("kind", "salts", "keys"),
    [
        ({}, "yes", "no"),
        ({"honours_salt": False, "shares_keys": True}, "no", "yes"),
        ({"refuses_salt": True}, "refused", "no"),
    ],
)
@pytest.mark.parametrize("tells", ["usage", "nothing"])
def test_isolation(kind: dict[str, Any], salts: str, keys: str, tells: str) -> None:
    findings = found(PlantedServer(Blocks(), tells=tells, **kind), has_other_key=True, max_wait_s=0)
    assert (findings["salts"].value, findings["keys"].value) == (salts, keys)


def test_no_cache_is_told_and_nothing_more_is_asked() -> None:
    findings = found(PlantedServer(Off(), max_model_len=3000))
    assert findings.keys() == {"reuse"}
    assert findings["reuse"].value == "no"


def test_hits_that_come_at_times_make_no_statement_on_loss() -> None:
    findings = found(PlantedServer(Blocks(), loses=0.3, seed=3))
    assert findings["reuse"].value == "at times"
    for name in ("capacity", "retention", "eviction"):
        assert findings[name].value is None, findings[name]


def test_words_of_several_tokens_give_a_limit_only() -> None:
    findings = found(PlantedServer(Blocks(16), tokens_per_word=2, head=3), max_wait_s=0)
    block = findings["block_size"]
    assert block.value is None or block.bound is Bound.AT_MOST
    assert findings["capacity"].bound is Bound.AT_LEAST


def test_others_on_the_server_are_noticed() -> None:
    server = PlantedServer(Blocks(), tells="metrics", foreign=100)
    probe = probe_of(server)
    findings = {finding.name: finding for finding in asyncio.run(probe.run())}
    assert probe.asker.num_foreign_tokens > 0
    assert findings["block_size"].confidence is Confidence.LIKELY  # by times: the counters are not ours alone


@pytest.mark.parametrize("max_tokens", [6_000, 15_000, 40_000, 120_000])
@pytest.mark.parametrize(
    "cache", [partial(Blocks, 16, capacity=9000), partial(Blocks, 64, minimum=192), Slots, partial(Slots, 2)]
)
def test_no_more_is_sent_than_was_said(max_tokens: int, cache: Callable[[], Cache]) -> None:
    probe = probe_of(PlantedServer(cache()), prompt_words=256, max_tokens=max_tokens, max_wait_s=8)
    asyncio.run(probe.run())
    assert probe.asker.num_tokens_sent <= max_tokens
    names = {finding.name for finding in probe.findings}
    assert {"reuse", "block_size", "minimum", "held_back", "branches", "salts", "retention", "capacity"} <= names
    sent: dict[str, list[int]] = {}
    for asked in probe.asker.log:
        sent.setdefault(asked.step, []).append(asked.num_prompt_tokens or 0)
    for cost in costs(probe.settings):
        assert cost.num_requests is None or len(sent.get(cost.name, ())) <= cost.num_requests, cost
        assert sum(sent.get(cost.name, ())) <= cost.num_tokens or cost.num_requests is None, cost
