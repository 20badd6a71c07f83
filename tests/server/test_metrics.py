"""The exposition: vLLM's names, all series from the start, no surprises for parsers that split lines."""

import asyncio
import re
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from anaphora.engine import EngineStats, Reason
from anaphora.server.latency import Histogram, LatencyHistograms
from anaphora.server.metrics import Metrics
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import LOCAL
from tests.server.live import serving
from tests.server.scripted_backend import ScriptedBackend

COUNTERS = {
    "vllm:prefix_cache_queries",
    "vllm:prefix_cache_hits",
    "vllm:prompt_tokens",
    "vllm:prompt_tokens_cached",
    "vllm:prompt_tokens_by_source",
    "vllm:generation_tokens",
    "vllm:num_preemptions",
    "vllm:request_success",
    "anaphora:prompt_tokens_by_reason",
    "anaphora:evicted_blocks",
}
GAUGES = {
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:cache_config_info",
    "anaphora:kv_cache_blocks",
    "anaphora:kv_cache_block_bytes",
    "anaphora:pins",
    "anaphora:pinned_blocks",
    "anaphora:text_memory_bytes",
}
HISTOGRAMS = {
    "vllm:time_to_first_token_seconds",
    "vllm:inter_token_latency_seconds",
    "vllm:e2e_request_latency_seconds",
    "vllm:request_queue_time_seconds",
    "vllm:request_prefill_time_seconds",
}


def exposition(tiny_model: Path, stats: EngineStats) -> str:
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model), current=stats)
    return asyncio.run(Metrics(backend, LatencyHistograms(), "qwen2.5-7b").text()).decode()


def test_every_series_is_there_from_the_start(tiny_model: Path) -> None:
    families = {family.name: family for family in text_string_to_metric_families(exposition(tiny_model, EngineStats()))}
    for kind, names in (("counter", COUNTERS), ("gauge", GAUGES), ("histogram", HISTOGRAMS)):
        assert names <= {name for name, family in families.items() if family.type == kind}
    for name in COUNTERS | HISTOGRAMS:
        assert families[name].samples
        assert all(sample.value == 0 for sample in families[name].samples)
    for family in families.values():
        for sample in family.samples:
            assert sample.labels["model_name"] == "qwen2.5-7b"
            assert sample.labels["engine"] == "0"
            assert not sample.name.endswith("_created")


def test_a_gpus_memory_is_told_by_use(tiny_model: Path) -> None:
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model))
    assert "gpu_memory_bytes" not in asyncio.run(Metrics(backend, LatencyHistograms(), "m").text()).decode()
    backend.device_bytes = {"weights": 5 * 2**30, "captured_steps": 7}
    text = asyncio.run(Metrics(backend, LatencyHistograms(), "m").text()).decode()
    [family] = [f for f in text_string_to_metric_families(text) if f.name == "anaphora:gpu_memory_bytes"]
    assert {sample.labels["use"]: sample.value for sample in family.samples} == backend.device_bytes
    assert {(sample.labels["model_name"], sample.labels["engine"]) for sample in family.samples} == {("m", "0")}


def test_values_are_the_engines(tiny_model: Path) -> None:
    stats = EngineStats(
        num_running=2,
        num_waiting=3,
        kv_usage=0.25,
        num_pins=2,
        num_pinned_blocks=5,
        num_prompt_tokens=100,
        num_output_tokens=7,
        num_queried_tokens=90,
        num_cached_tokens=64,
        tokens_by_reason={Reason.REUSED_DEVICE: 64, Reason.NEW: 26, Reason.BYPASSED: 10},
        num_preemptions=1,
        num_finished={"stop": 4},
    )
    samples = {
        (
            sample.name,
            sample.labels.get("source") or sample.labels.get("reason") or sample.labels.get("finished_reason"),
        ): (sample.value)
        for family in text_string_to_metric_families(exposition(tiny_model, stats))
        for sample in family.samples
    }
    assert samples["vllm:prefix_cache_queries_total", None] == 90
    assert samples["vllm:prefix_cache_hits_total", None] == 64
    assert samples["vllm:prompt_tokens_total", None] == 100
    assert samples["vllm:prompt_tokens_by_source_total", "local_cache_hit"] == 64
    assert samples["vllm:prompt_tokens_by_source_total", "local_compute"] == 36
    assert samples["anaphora:prompt_tokens_by_reason_total", "new"] == 26
    assert samples["vllm:request_success_total", "stop"] == 4
    assert samples["vllm:num_requests_running", None] == 2
    assert samples["vllm:num_requests_waiting", None] == 3
    assert samples["vllm:kv_cache_usage_perc", None] == 0.25
    assert samples["vllm:num_preemptions_total", None] == 1
    assert samples["anaphora:pins", None] == 2
    assert samples["anaphora:pinned_blocks", None] == 5


def test_public_metrics_do_not_tell_what_other_tenants_hold(tiny_model: Path) -> None:
    """A request for what another tenant has cached moves no series that a request for something new leaves alone."""
    guessed_right = EngineStats(
        tokens_by_reason={Reason.ISOLATED: 64, Reason.TAIL: 3},
        tokens_by_tenant_reason={Reason.NEW: 64, Reason.TAIL: 3},
    )
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model), current=guessed_right)
    public, private = (
        asyncio.run(Metrics(backend, LatencyHistograms(), "m", is_public=is_public).text()).decode()
        for is_public in (True, False)
    )
    series = 'anaphora:prompt_tokens_by_reason_total{engine="0",model_name="m",reason="%s"} %s'
    assert series % ("isolated", "0.0") in public
    assert series % ("new", "64.0") in public
    assert series % ("isolated", "64.0") in private
    assert series % ("new", "0.0") in private


def test_the_published_scripts_way_of_reading_works(tiny_model: Path) -> None:
    text = exposition(tiny_model, EngineStats(num_queried_tokens=12006, num_cached_tokens=11904))
    found = {}
    for line in text.split("\n"):
        for name in ("queries", "hits"):
            if line.startswith(f"vllm:prefix_cache_{name}_total{{"):
                found[name] = float(line.split("} ")[1])
    assert found == {"queries": 12006.0, "hits": 11904.0}


def test_the_effective_settings_are_shown(tiny_model: Path) -> None:
    line = next(line for line in exposition(tiny_model, EngineStats()).splitlines() if "cache_config_info{" in line)
    assert 'block_size="16"' in line
    assert 'enable_prefix_caching="True"' in line
    assert 'num_gpu_blocks="8"' in line


def test_requests_are_timed(tiny_model: Path) -> None:
    with serving(tiny_model) as server:
        body = {"prompt": [5, 6, 7], "max_tokens": 6, "n": 2, "ignore_eos": True}
        for stream in (False, True):
            httpx.post(f"{server.url}/v1/completions", json={**body, "stream": stream}, **LOCAL)
        response = httpx.get(f"{server.url}/metrics", **LOCAL)
    assert response.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    counts = dict(re.findall(r"^vllm:(\w+)_seconds_count\{[^}]*\} (\S+)$", response.text, re.MULTILINE))
    assert 0 < float(counts.pop("inter_token_latency")) <= 20  # those that come with a first one have none
    assert counts == {
        "time_to_first_token": "4.0",
        "e2e_request_latency": "4.0",
        "request_queue_time": "4.0",
        "request_prefill_time": "4.0",
    }


def test_histogram_buckets_are_cumulative_and_include_their_bound() -> None:
    histogram = Histogram((0.1, 0.2))
    for seconds in (0.05, 0.1, 0.15, 7.0):
        histogram.observe(seconds)
    assert histogram.cumulative() == [("0.1", 2.0), ("0.2", 3.0), ("+Inf", 4.0)]
    assert histogram.sum_s == 0.05 + 0.1 + 0.15 + 7.0
