"""The three witnesses of a hit in words."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report.words import percent
from anaphora.lab.witnesses import told_rate

WITNESS_NAMES = {"usage": "usage of the answers", "metrics": "/metrics counters", "predicted": "prediction"}


def hit_rate_line(experiment: Mapping[str, Any]) -> str:
    """The three witnesses in one line, over all on-requests and without those that filled the cache."""
    over_all, later = experiment["hit_rate_percent"], experiment["hit_rate_percent_after_first"]
    said = ", ".join(f"{name} {percent(over_all[key])}" for key, name in WITNESS_NAMES.items())
    return f"hit rate: {said}; without the requests that fill the cache {percent(told_rate(later))}"
