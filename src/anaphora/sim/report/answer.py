"""What a simulation found, in a sentence or two."""

from collections.abc import Mapping
from typing import Any

from anaphora.sim.report.timing import timed_answer
from anaphora.sim.report.words import duration

_BOUND = "belady"


def answer(results: Mapping[str, Any]) -> str:
    """Which policy serves most at which capacity, how far that is from the bound, and what no cache can exceed."""
    runs = results["runs"]
    policies = [policy for policy in dict.fromkeys(run["policy"] for run in runs) if policy != _BOUND]
    parts = [_smallest_and_largest(results, policy) for policy in policies[:1]]
    parts += [_best_against_bound(results, policies)] if len(policies) > 1 else []
    parts += [_ceiling(results), _kept(results), timed_answer(results)]
    return " ".join(part for part in parts if part)


def _bounded(results: Mapping[str, Any], policy: str) -> list[Mapping[str, Any]]:
    runs = [run for run in results["runs"] if run["policy"] == policy and run["capacity_blocks"] is not None]
    return sorted(runs, key=lambda run: run["capacity_blocks"])


def _smallest_and_largest(results: Mapping[str, Any], policy: str) -> str:
    runs = _bounded(results, policy)
    if not runs:
        return ""
    first, last = runs[0], runs[-1]
    text = f"With {_size(results, first)}, {policy} serves {_rate(first)} of the prompt tokens"
    return f"{text}." if first is last else f"{text}; with {_size(results, last)}, {_rate(last)}."


def _best_against_bound(results: Mapping[str, Any], policies: list[str]) -> str:
    """At the capacity where the policies differ most."""
    by_size: dict[int, list[Mapping[str, Any]]] = {}
    for policy in policies:
        for run in _bounded(results, policy):
            by_size.setdefault(run["capacity_blocks"], []).append(run)
    if not by_size:
        return ""
    rows = max(by_size.values(), key=lambda runs: _spread([run["token_hit_rate"] for run in runs]))
    best, worst = (choose(rows, key=lambda run: run["token_hit_rate"]) for choose in (max, min))
    size = best["capacity_blocks"]
    bound = next((run for run in _bounded(results, _BOUND) if run["capacity_blocks"] == size), None)
    text = f"Policies differ most with {_size(results, best)}: {_rate(best)} by {best['policy']}"
    text += f", {_rate(worst)} by {worst['policy']}"
    return f"{text}; the bound is {_rate(bound)}." if bound else f"{text}."


def _ceiling(results: Mapping[str, Any]) -> str:
    rates = results["reuse"]["lru"]["token_hit_rate"]
    return f"However large, no cache serves more than {100 * rates[-1]:.1f}%." if rates else ""


def _kept(results: Mapping[str, Any]) -> str:
    times = results["reuse"]["time_to_reuse_s"]
    if times is None:
        return ""
    return f"Half of all reuses come within {duration(times['median'])}, 90% within {duration(times['p90'])}."


def _size(results: Mapping[str, Any], run: Mapping[str, Any]) -> str:
    share = 100 * run["capacity_blocks"] / results["trace"]["distinct_blocks"]
    return f"{run['capacity_blocks']:,} blocks ({share:.3g}% of the distinct ones)"


def _rate(run: Mapping[str, Any]) -> str:
    error = run.get("token_hit_rate_error")
    return f"{100 * run['token_hit_rate']:.1f}%" + (f" ± {100 * error:.1f}" if error is not None else "")


def _spread(values: list[float]) -> float:
    return max(values) - min(values)
