"""Cache counters from a server's metrics text, one row a naming era.

A ratio is made from one family only; series are summed over engines and the other labels; a reading has its unit.
Ready-made hit-rate gauges are not read: they are a window or the last batch, not the run.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from anaphora.traces.records import CounterReading


@dataclass(frozen=True, slots=True)
class _Family:
    """How one era names its pair. ``by_source``: the label whose values say where a prompt token came from; ``queried``
    and ``cached`` are then the same metric, and ``sources`` are the label's values that mean cached."""

    name: str
    queried: str
    cached: str
    by_source: str = ""
    sources: tuple[str, ...] = ()


_FAMILIES = (
    _Family(
        "vllm:prompt_tokens_by_source",
        "vllm:prompt_tokens_by_source",
        "vllm:prompt_tokens_by_source",
        by_source="source",
        sources=("local_cache_hit", "external_kv_transfer"),
    ),
    _Family("vllm:prefix_cache", "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"),
    _Family("vllm:gpu_prefix_cache", "vllm:gpu_prefix_cache_queries", "vllm:gpu_prefix_cache_hits"),
    _Family("sglang", "sglang:prompt_tokens", "sglang:cached_tokens"),
    _Family("sglang", "sglang_prompt_tokens", "sglang_cached_tokens"),
)


@dataclass(frozen=True, slots=True)
class MetricsText:
    """A metrics text, parsed. ``samples``: metric name without ``_total`` → its series as (labels, value)."""

    samples: Mapping[str, list[tuple[Mapping[str, str], float]]]
    help: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "MetricsText":
        """From Prometheus' text format; lines that are none of it raise :class:`ValueError`."""
        samples: dict[str, list[tuple[Mapping[str, str], float]]] = {}
        documentation: dict[str, str] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                name = sample.name.removesuffix("_total")
                samples.setdefault(name, []).append((sample.labels, sample.value))
                documentation.setdefault(name, family.documentation)
        return cls(samples, documentation)

    @property
    def models(self) -> tuple[str, ...]:
        """Every model that has a series of a cache counter."""
        names = {name for family in _FAMILIES for name in (family.queried, family.cached)}
        return tuple(sorted({m for name in names for labels, _ in self.samples.get(name, ()) if (m := _model(labels))}))

    def cache_config(self) -> Mapping[str, str]:
        """The settings that vLLM and its kin publish as labels of ``vllm:cache_config_info``; empty if there are
        none."""
        for labels, _ in self.samples.get("vllm:cache_config_info", ()):
            return labels
        return {}


def read_counters(metrics: MetricsText, model: str | None = None) -> CounterReading | None:
    """The reading of the newest family that the text has, for ``model`` if it is named there, else over all models.

    ``None``: the server publishes no cache counters. That is not 0.
    """
    for family in _FAMILIES:
        queried = _of_model(metrics.samples.get(family.queried, ()), model)
        cached = _of_model(metrics.samples.get(family.cached, ()), model)
        if not queried:
            continue
        if family.by_source:
            cached = [(labels, value) for labels, value in cached if labels.get(family.by_source) in family.sources]
        return CounterReading(family.name, _unit(metrics, family), _sum(queried), _sum(_without_totals(cached)))
    return None


def difference(before: CounterReading | None, after: CounterReading | None) -> CounterReading | None:
    """What was counted between two readings; a missing first reading means that the series began in between.

    ``None`` if that is unknown: no counters, another family, or a counter that went back because the server restarted.
    """
    if after is None:
        return None
    if before is None:
        return after
    if (before.family, before.unit) != (after.family, after.unit):
        return None
    queried, cached = after.queried - before.queried, after.cached - before.cached
    return None if queried < 0 or cached < 0 else CounterReading(after.family, after.unit, queried, cached)


def total(differences: Iterable[CounterReading | None]) -> CounterReading | None:
    """The sum of what single differences counted; ``None`` if one is unknown or they are of several families."""
    parts = list(differences)
    first = parts[0] if parts else None
    if first is None or any(part is None or (part.family, part.unit) != (first.family, first.unit) for part in parts):
        return None
    known = [part for part in parts if part is not None]
    return CounterReading(first.family, first.unit, sum(p.queried for p in known), sum(p.cached for p in known))


def _of_model(
    series: Iterable[tuple[Mapping[str, str], float]], model: str | None
) -> list[tuple[Mapping[str, str], float]]:
    rows = list(series)
    named = [row for row in rows if _model(row[0]) == model] if model else []
    return named or rows


def _model(labels: Mapping[str, str]) -> str:
    return labels.get("model_name", "") or labels.get("model", "")


def _without_totals(
    series: list[tuple[Mapping[str, str], float]],
) -> list[tuple[Mapping[str, str], float]]:
    """SGLang writes ``cache_source="total"`` when it has no breakdown; beside a breakdown it would count twice."""
    parts = [row for row in series if row[0].get("cache_source") != "total"]
    return parts or series


def _sum(series: list[tuple[Mapping[str, str], float]]) -> float:
    return sum(value for _, value in series)


def _unit(metrics: MetricsText, family: _Family) -> str:
    text = metrics.help.get(family.queried, "")
    return "blocks" if re.search(r"\bblocks?\b", text) and "token" not in text else "tokens"
