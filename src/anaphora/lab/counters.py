"""Cache counters from a server's metrics text.

A ratio is made from one family of names only (:mod:`anaphora.lab.dialects.families`); series are summed over engines
and the other labels; a reading has its unit. Ready-made hit-rate gauges are not read: they are a window or the last
batch, not the run.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from anaphora.lab.dialects import OTHER, CounterFamily, Dialect
from anaphora.traces.records import CounterReading

Series = list[tuple[Mapping[str, str], float]]
"""The series of one metric: labels and value of each."""


@dataclass(frozen=True, slots=True)
class MetricsText:
    """A metrics text, parsed. ``samples``: metric name without ``_total`` → its series as (labels, value)."""

    samples: Mapping[str, Series]
    help: Mapping[str, str]

    @classmethod
    def parse(cls, text: str) -> "MetricsText":
        """From Prometheus' text format; lines that are none of it raise :class:`ValueError`."""
        samples: dict[str, Series] = {}
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
        names = {name for family in OTHER.families for name in (*family.queried, *family.cached)}
        return tuple(sorted({m for name in names for labels, _ in self.samples.get(name, ()) if (m := _model(labels))}))

    def cache_config(self) -> Mapping[str, str]:
        """The settings that vLLM and its kin publish as labels of ``vllm:cache_config_info``; empty if there are
        none."""
        for labels, _ in self.samples.get("vllm:cache_config_info", ()):
            return labels
        return {}


def read_counters(metrics: MetricsText, model: str | None = None, dialect: Dialect = OTHER) -> CounterReading | None:
    """The reading of the dialect's newest family that the text has, for ``model`` if it is named there, else over all
    models.

    ``None``: the server publishes no cache counters. That is not 0.
    """
    for family in dialect.families:
        if not all(metrics.samples.get(name) for name in family.queried):
            continue
        queried = _series(metrics, family.queried, model)
        cached = _series(metrics, family.cached, model)
        by_source: dict[str, float] = {}
        if family.source_label:
            cached = _from_cache(cached, family)
            for labels, value in cached:
                source = labels.get(family.source_label, "unknown")
                by_source[source] = by_source.get(source, 0.0) + value
        return CounterReading(family.name, _unit(metrics, family), _sum(queried), _sum(cached), by_source)
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
    if queried < 0 or cached < 0:
        return None
    sources = {name: value - before.by_source.get(name, 0.0) for name, value in after.by_source.items()}
    return CounterReading(after.family, after.unit, queried, cached, sources)


def total(differences: Iterable[CounterReading | None]) -> CounterReading | None:
    """The sum of what single differences counted; ``None`` if one is unknown or they are of several families."""
    parts = list(differences)
    first = parts[0] if parts else None
    if first is None or any(part is None or (part.family, part.unit) != (first.family, first.unit) for part in parts):
        return None
    known = [part for part in parts if part is not None]
    sources: dict[str, float] = {}
    for part in known:
        for name, value in part.by_source.items():
            sources[name] = sources.get(name, 0.0) + value
    queried, cached = sum(part.queried for part in known), sum(part.cached for part in known)
    return CounterReading(first.family, first.unit, queried, cached, sources)


def _series(metrics: MetricsText, names: Iterable[str], model: str | None) -> Series:
    """All series of some metrics that are the model's; all there are if none names it."""
    rows = [row for name in names for row in metrics.samples.get(name, ())]
    named = [row for row in rows if _model(row[0]) == model] if model else []
    return named or rows


def _model(labels: Mapping[str, str]) -> str:
    return labels.get("model_name", "") or labels.get("model", "")


def _from_cache(series: Series, family: CounterFamily) -> Series:
    """Those whose source means cached. SGLang writes ``total`` where it has no breakdown; beside one, that would count
    twice."""
    if family.sources:
        return [row for row in series if row[0].get(family.source_label) in family.sources]
    return [row for row in series if row[0].get(family.source_label) != "total"] or series


def _sum(series: Series) -> float:
    return sum(value for _, value in series)


def _unit(metrics: MetricsText, family: CounterFamily) -> str:
    if family.unit != "help":
        return family.unit
    text = metrics.help.get(family.queried[0], "")
    return "blocks" if re.search(r"\bblocks?\b", text) and "token" not in text else "tokens"
