"""Cases 05-07: cache counters of several engines, eras and servers."""

from pathlib import Path

import pytest

from anaphora.lab.counters import MetricsText, difference, read_counters, total
from anaphora.traces.records import CounterReading

CASES = Path(__file__).parents[1] / "data" / "cases"


def counted(case: str, prefix: str = "", model: str | None = None) -> CounterReading | None:
    folder = next(CASES.glob(f"{case}-*"))
    before, after = (
        MetricsText.parse((folder / f"{prefix}{name}.txt").read_text("utf-8")) for name in ("before", "after")
    )
    return difference(read_counters(before, model), read_counters(after, model))


def test_engines_are_summed_for_the_model_that_was_measured() -> None:
    assert counted("05", model="demo-model") == CounterReading("vllm:prefix_cache", "tokens", 10000, 3600)
    assert counted("05") == CounterReading("vllm:prefix_cache", "tokens", 11000, 4600)
    text = (next(CASES.glob("05-*")) / "after.txt").read_text("utf-8")
    assert MetricsText.parse(text).models == ("demo-model", "other-model")


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("a-", CounterReading("vllm:prefix_cache", "tokens", 3200, 2400)),
        ("b-", CounterReading("vllm:gpu_prefix_cache", "blocks", 200, 150)),
        ("c-", CounterReading("vllm:prefix_cache", "tokens", 640, 320)),
    ],
)
def test_one_family_in_its_own_unit_and_no_creation_times(prefix: str, expected: CounterReading) -> None:
    assert counted("06", prefix, "demo-model") == expected


@pytest.mark.parametrize("prefix", ["a-colon-", "b-underscore-"])
def test_sglang_sums_labels_before_dividing(prefix: str) -> None:
    assert counted("07", prefix, "demo-model") == CounterReading(
        "sglang", "tokens", 16000, 12000, {"device": 10000, "host": 2000}
    )


def test_prompt_tokens_by_source_are_preferred_and_sources_told_apart() -> None:
    text = """
# TYPE vllm:prefix_cache_queries counter
vllm:prefix_cache_queries_total{engine="0"} 99999
# TYPE vllm:prompt_tokens_by_source counter
vllm:prompt_tokens_by_source_total{engine="0",source="local_compute"} 100
vllm:prompt_tokens_by_source_total{engine="0",source="local_cache_hit"} 250
vllm:prompt_tokens_by_source_total{engine="0",source="external_kv_transfer"} 50
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="32",num_gpu_blocks="128"} 1
"""
    metrics = MetricsText.parse(text)
    assert read_counters(metrics) == CounterReading(
        "vllm:prompt_tokens_by_source", "tokens", 400, 300, {"local_cache_hit": 250, "external_kv_transfer": 50}
    )
    assert metrics.cache_config()["block_size"] == "32"


def test_sglang_without_a_hit_has_cached_nothing_and_a_total_is_not_added_to_its_parts() -> None:
    text = '# TYPE sglang:prompt_tokens_total counter\nsglang:prompt_tokens_total{model_name="m"} 40\n'
    assert read_counters(MetricsText.parse(text)) == CounterReading("sglang", "tokens", 40, 0)
    text += (
        "# TYPE sglang:cached_tokens_total counter\n"
        'sglang:cached_tokens_total{cache_source="device"} 7\nsglang:cached_tokens_total{cache_source="total"} 7\n'
    )
    assert read_counters(MetricsText.parse(text)) == CounterReading("sglang", "tokens", 40, 7, {"device": 7})


def test_no_counters_a_restart_and_another_family_are_unknown() -> None:
    assert read_counters(MetricsText.parse("# TYPE up gauge\nup 1\n")) is None
    early, late = CounterReading("f", "tokens", 10, 5), CounterReading("f", "tokens", 30, 9)
    assert difference(early, late) == CounterReading("f", "tokens", 20, 4)
    assert difference(None, early) == early  # the series began with the first request
    assert difference(late, early) is None
    assert difference(early, None) is None
    assert difference(early, CounterReading("g", "tokens", 30, 9)) is None
    assert difference(early, CounterReading("f", "blocks", 30, 9)) is None
    assert total([late, early]) == CounterReading("f", "tokens", 40, 14)
    assert total([late, None]) is None
    assert total([late, CounterReading("g", "tokens", 1, 1)]) is None
    assert total([]) is None
