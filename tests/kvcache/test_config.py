import pytest

from anaphora.errors import ConfigError
from anaphora.kvcache.config import CacheConfig


def test_slots_are_blocks_times_block_size() -> None:
    assert CacheConfig(num_blocks=3, block_size=16).num_slots == 48


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"num_blocks": 0}, "num_blocks must be at least 1, got 0"),
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"max_remembered_namespaces": 0}, "max_remembered_namespaces must be at least 1, got 0"),
        ({"max_remembered_evictions": -1}, "max_remembered_evictions must not be negative, got -1"),
        ({"max_pinned_share": 1.1}, "max_pinned_share must be from 0 to 1, got 1.1"),
        ({"max_pins": -1}, "max_pins must not be negative, got -1"),
        ({"max_pinned_share": -0.1}, "max_pinned_share must be from 0 to 1, got -0.1"),
        ({"max_remembered_prompts": -1}, "max_remembered_prompts must not be negative, got -1"),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(setting: dict[str, float], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        CacheConfig(**({"num_blocks": 4} | setting))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "hint"), [("fifa", "did you mean 'fifo'\\? choose"), ("oracle", "choose")], ids=["near", "far"]
)
def test_an_unknown_policy_is_refused_with_the_nearest_and_all_known_ones(name: str, hint: str) -> None:
    message = f"^eviction_policy '{name}' is not known; {hint} one of: fifo, lfu, lru, return-rate, s3fifo, slru$"
    with pytest.raises(ConfigError, match=message):
        CacheConfig(num_blocks=4, eviction_policy=name)


def test_default_asks_for_the_policy_that_there_is_anyway() -> None:
    assert CacheConfig(num_blocks=4).eviction_policy == "return-rate"
    assert CacheConfig(num_blocks=4, eviction_policy="default") == CacheConfig(num_blocks=4)
    assert CacheConfig(num_blocks=4, eviction_policy="lru").eviction_policy == "lru"
