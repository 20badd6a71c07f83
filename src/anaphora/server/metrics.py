"""``/metrics``: vLLM's names and labels where the meaning is the same, ``anaphora:`` for what nobody else has.

All is read from the engine's own counts at the moment of the scrape: nothing is kept in a global or counted twice.
Every series exists from the start, at 0. There are no ``_created`` series.
"""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from anaphora.engine import EngineStats, Reason
from anaphora.server.backend import Backend
from anaphora.server.latency import Histogram, LatencyHistograms
from anaphora.server.peers import Alone, Peers, Topic

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """What a scrape gets. ``is_public``: everybody may read it, so tokens are counted by the classes that tenants see.

    Else whoever guesses another tenant's prompt could watch ``isolated`` grow.
    """

    def __init__(
        self,
        backend: Backend,
        latencies: LatencyHistograms,
        model_name: str,
        *,
        peers: Peers | None = None,
        is_public: bool = False,
    ) -> None:
        self._backend = backend
        self._model_name = model_name
        self._is_public = is_public
        self._peers = peers or Alone()
        self._peers.answer(Topic.LATENCIES, lambda _: latencies.packed())
        self._peers.answer(Topic.TEXT_MEMORY, lambda _: b"%d" % backend.tokenizer.num_remembered_bytes)

    async def text(self) -> bytes:
        """The exposition in Prometheus' text format: the engine's counts, and what all front ends add to them."""
        latencies = LatencyHistograms.total(await self._peers.gather(Topic.LATENCIES))
        num_text_bytes = sum(map(int, await self._peers.gather(Topic.TEXT_MEMORY)))
        stats = await self._backend.fetch_stats()
        registry = CollectorRegistry(auto_describe=False)
        registry.register(
            Exposition(self._backend, stats, latencies, num_text_bytes, self._model_name, is_public=self._is_public)
        )
        return generate_latest(registry)


class Exposition(Collector):
    """All series of one moment, labelled ``model_name`` and ``engine`` (always ``0``: there is one)."""

    def __init__(
        self,
        backend: Backend,
        stats: EngineStats,
        latencies: LatencyHistograms,
        num_text_bytes: int,
        model_name: str,
        *,
        is_public: bool,
    ) -> None:
        self._backend = backend
        self._stats = stats
        self._latencies = latencies
        self._num_text_bytes = num_text_bytes
        self._labels = {"model_name": model_name, "engine": "0"}
        self._is_public = is_public

    def collect(self) -> Iterator[Metric]:
        """All families (the registry calls this)."""
        stats = self._stats
        for name, value, help_text in _counters(stats):
            yield self._counter(name, help_text, {(): value})
        tokens_by_reason = stats.tokens_by_tenant_reason if self._is_public else stats.tokens_by_reason
        for name, label, values, help_text in _labelled_counters(stats, tokens_by_reason):
            yield self._counter(name, help_text, {(key,): value for key, value in values.items()}, label)
        for name, value, help_text in self._gauges(stats):
            yield self._gauge(name, help_text, value)
        if self._backend.device_bytes:
            yield self._device_bytes()
        for name, histogram, help_text in self._histograms():
            yield self._histogram(name, help_text, histogram)
        yield self._gauge("vllm:cache_config_info", "Settings of the cache, as labels.", 1, self._config_labels())

    def _gauges(self, stats: EngineStats) -> Iterator[tuple[str, float, str]]:
        capacity = self._backend.kv_capacity
        yield "vllm:num_requests_running", stats.num_running, "Requests that hold blocks and are being computed."
        yield "vllm:num_requests_waiting", stats.num_waiting, "Requests that wait for admission."
        yield (
            "vllm:kv_cache_usage_perc",
            stats.kv_usage,
            "Share of blocks that running requests or pins hold (1 is all).",
        )
        yield "anaphora:kv_cache_blocks", capacity.num_blocks, "Blocks of the KV cache."
        yield "anaphora:kv_cache_free_blocks", stats.num_free_blocks, "Blocks that nobody holds, cached or not."
        yield "anaphora:pins", stats.num_pins, "Pinned prefixes."
        yield "anaphora:pinned_blocks", stats.num_pinned_blocks, "Different blocks that pins hold."
        yield "anaphora:kv_cache_block_bytes", capacity.num_bytes // capacity.num_blocks, "Bytes of one block."
        yield "anaphora:text_memory_bytes", self._num_text_bytes, "Remembered texts of chats and their ids."
        yield "anaphora:max_model_len", self._backend.max_model_len, "Tokens of prompt and output of one request."

    def _histograms(self) -> Iterator[tuple[str, Histogram, str]]:
        times = self._latencies
        yield "vllm:time_to_first_token_seconds", times.time_to_first_token, "From arrival to the first token."
        yield "vllm:inter_token_latency_seconds", times.inter_token_latency, "Between one token and the next."
        yield "vllm:e2e_request_latency_seconds", times.e2e_request_latency, "From arrival to the last token."
        yield "vllm:request_queue_time_seconds", times.request_queue_time, "From arrival to admission."
        yield "vllm:request_prefill_time_seconds", times.request_prefill_time, "From admission to the first token."

    def _device_bytes(self) -> GaugeMetricFamily:
        help_text = "GPU memory by use; captured steps and kernels as measured at the start."
        family = GaugeMetricFamily("anaphora:gpu_memory_bytes", help_text, labels=[*self._labels, "use"])
        for use, num_bytes in self._backend.device_bytes.items():
            family.add_metric([*self._labels.values(), use], num_bytes)
        return family

    def _config_labels(self) -> dict[str, str]:
        config, capacity = self._backend.config, self._backend.kv_capacity
        return {
            "block_size": str(config.block_size),
            "enable_prefix_caching": str(config.enable_prefix_caching),
            "eviction_policy": config.eviction_policy,
            "gpu_memory_utilization": str(config.gpu_memory_utilization),
            "kv_cache_size_tokens": str(capacity.num_tokens),
            "kv_cache_memory_bytes": str(capacity.num_bytes),
            "num_gpu_blocks": str(capacity.num_blocks),
        }

    def _counter(
        self, name: str, help_text: str, values: Mapping[tuple[str, ...], float], *labels: str
    ) -> CounterMetricFamily:
        family = CounterMetricFamily(name, help_text, labels=[*self._labels, *labels])
        for key, value in values.items():
            family.add_metric([*self._labels.values(), *key], value)
        return family

    def _gauge(
        self, name: str, help_text: str, value: float, labels: Mapping[str, str] | None = None
    ) -> GaugeMetricFamily:
        all_labels = {**self._labels, **(labels or {})}
        family = GaugeMetricFamily(name, help_text, labels=list(all_labels))
        family.add_metric(list(all_labels.values()), value)
        return family

    def _histogram(self, name: str, help_text: str, histogram: Histogram) -> HistogramMetricFamily:
        family = HistogramMetricFamily(name, help_text, labels=list(self._labels))
        family.add_metric(list(self._labels.values()), buckets=histogram.cumulative(), sum_value=histogram.sum_s)
        return family


def _counters(stats: EngineStats) -> Iterator[tuple[str, float, str]]:
    yield "vllm:prefix_cache_queries", stats.num_queried_tokens, "Prompt tokens for which the prefix cache was asked."
    yield "vllm:prefix_cache_hits", stats.num_cached_tokens, "Prompt tokens that the prefix cache served."
    yield "vllm:prompt_tokens", stats.num_prompt_tokens, "Prompt tokens of admitted requests."
    yield "vllm:prompt_tokens_cached", stats.num_cached_tokens, "Prompt tokens that were not computed."
    yield "vllm:generation_tokens", stats.num_output_tokens, "Generated tokens."
    yield "vllm:num_preemptions", stats.num_preemptions, "Requests that gave their blocks back for others."
    yield "anaphora:recomputed_tokens", stats.num_recomputed_tokens, "Tokens computed again after a preemption."
    yield "anaphora:evicted_blocks", stats.num_evicted_blocks, "Cached blocks that made room for others."
    yield "anaphora:steps", stats.num_steps, "Forward passes of the model."
    yield "anaphora:failed_steps", stats.num_failed_steps, "Forward passes that failed."


def _labelled_counters(
    stats: EngineStats, tokens_by_reason: Mapping[Reason, int]
) -> Iterator[tuple[str, str, dict[str, float], str]]:
    by_source: dict[str, float] = {
        "local_compute": stats.num_prompt_tokens - stats.num_cached_tokens,
        "local_cache_hit": stats.num_cached_tokens,
        "external_kv_transfer": 0,
    }
    by_reason = {reason.value: float(tokens_by_reason.get(reason, 0)) for reason in Reason}
    finished = {reason: float(stats.num_finished.get(reason, 0)) for reason in ("stop", "length", "abort")}
    yield "vllm:prompt_tokens_by_source", "source", by_source, "Prompt tokens by where their KV came from."
    yield "vllm:request_success", "finished_reason", finished, "Finished requests by reason."
    yield "anaphora:prompt_tokens_by_reason", "reason", by_reason, "Prompt tokens by the ledger's classes."
