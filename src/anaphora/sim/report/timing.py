"""What a simulation in time adds to its results: tables, remarks and files, where there was one."""

import csv
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from anaphora.report.tables import Table
from anaphora.sim.report.labels import capacity

NO_CACHE = "no cache"
_OVERLOAD_SHARE = 0.1


def is_timed(results: Mapping[str, Any]) -> bool:
    """Whether anything was simulated in time."""
    return results.get("latency") is not None


def timed_runs(results: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Policy, capacity and timing of everything that was simulated in time.

    Without a prefix cache (policy :data:`NO_CACHE`) there is one for each capacity.
    """
    seen_off: set[object] = set()
    for run in results["runs"]:
        for arm, timing in (run.get("timing") or {}).items():
            if arm == "on":
                yield run["policy"], capacity(run), timing
            elif run["capacity_blocks"] not in seen_off:
                seen_off.add(run["capacity_blocks"])
                yield NO_CACHE, capacity(run), timing


def timing_tables(results: Mapping[str, Any]) -> list[Table]:
    """Waiting times, load, and where the numbers come from; none if nothing was simulated in time."""
    return [_waiting(results), _load(results), _source(results)] if is_timed(results) else []


def timed_answer(results: Mapping[str, Any]) -> str:
    """What the first timed run's cache does to first-token times, in a sentence; empty if nothing was timed."""
    run = next((run for run in results["runs"] if run.get("timing")), None)
    if run is None:
        return ""
    on, off = (run["timing"][arm]["ttft_ms"] for arm in ("on", "off"))
    if on["p50"] is None or off["p50"] is None:
        return ""
    return (
        f"In simulated time, with {capacity(run)} blocks and {run['policy']}, half of the requests have their first "
        f"token within {_seconds(on['p50'])} s and 99 % within {_seconds(on['p99'])} s; without a prefix cache "
        f"{_seconds(off['p50'])} s and {_seconds(off['p99'])} s."
    )


def timing_remarks(results: Mapping[str, Any]) -> Iterator[str]:
    """Where a timeline is to be doubted."""
    if not is_timed(results):
        return
    if num_unknown := results["latency"]["requests_of_unknown_output"]:
        yield f"{num_unknown:,} requests do not tell how much was answered: one token each was simulated"
    for policy, size, timing in timed_runs(results):
        where = f"{policy}, {size} blocks"
        if timing["refused_requests"]:
            yield f"{where}: {timing['refused_requests']:,} prompts can never fit and were refused, as an engine does"
        if timing["waiting_at_last_arrival"] > _OVERLOAD_SHARE * timing["num_requests"]:
            yield (
                f"{where}: requests come faster than they are served; {timing['waiting_at_last_arrival']:,} waited "
                "when the last one came, so times grow with the trace's length"
            )


def write_timing(results: Mapping[str, Any], folder: Path) -> None:
    """``timing.csv``, a row for each run with and without its cache, and ``latency.json``, for another simulation."""
    if not is_timed(results):
        return
    latency = {name: results["latency"][name] for name in ("coefficients", "sources", "fit")}
    (folder / "latency.json").write_text(json.dumps(latency, indent=2, allow_nan=False) + "\n", "utf-8")
    rows = [
        {"policy": run["policy"], "capacity_blocks": run["capacity_blocks"], "cache": arm, **_flat(timing)}
        for run in results["runs"]
        for arm, timing in (run["timing"] or {}).items()
    ]
    with (folder / "timing.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]) if rows else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _flat(timing: Mapping[str, Any]) -> dict[str, Any]:
    """Distributions and the ledger in columns of their own; an unknown value is an empty cell."""
    flat: dict[str, Any] = {}
    for name, value in timing.items():
        if isinstance(value, Mapping):
            flat |= {f"{name}_{part}": number for part, number in value.items()}
        elif not isinstance(value, list):
            flat[name] = value
    return flat


def _waiting(results: Mapping[str, Any]) -> Table:
    quantities = {"ttft_ms": "TTFT", "queue_ms": "queue", "tpot_ms": "TPOT", "e2e_ms": "E2E"}
    parts = {"ttft_ms": ("mean", "p50", "p90", "p99"), "queue_ms": ("p50", "p99")}
    wanted = [(name, part) for name in quantities for part in parts.get(name, ("p50",))]
    rows = [
        (policy, size, *(_seconds(timing[name][part]) for name, part in wanted))
        for policy, size, timing in timed_runs(results)
    ]
    columns = ("<policy", "capacity", *(f"{quantities[name]} {part}" for name, part in wanted))
    note = "Queue: from arrival to the start of the first step. TPOT: time per output token after the first."
    return Table("Simulated waiting times, in s", columns, tuple(rows), note)


def _load(results: Mapping[str, Any]) -> Table:
    rows = [
        (
            policy,
            size,
            _percent(timing["token_hit_rate"]),
            f"{timing['steps']:,}",
            f"{timing['busy_s']:,.1f}",
            _percent(timing["utilisation"]),
            _number(timing["requests_per_s"]),
            _number(timing["output_tokens_per_s"]),
        )
        for policy, size, timing in timed_runs(results)
    ]
    columns = ("<policy", "capacity", "cached, %", "steps", "busy, s", "busy, %", "requests/s", "output tokens/s")
    note = "Busy: the sum of all steps. Cached: with requests at the same time; above, one after another."
    return Table("Simulated load", columns, tuple(rows), note)


def _source(results: Mapping[str, Any]) -> Table:
    latency = results["latency"]
    fit = latency["fit"]
    coefficients = tuple((name, f"{value:.6g}") for name, value in latency["coefficients"].items())
    note = f"From {', '.join(latency['sources'])}"
    if fit is not None:
        worst = max(fit["residuals"], key=lambda one: abs(one["percent"]))
        note += (
            f": fitted to {len(fit['residuals'])} medians, {100 * fit['mean_relative_error']:.1f} % off in the mean; "
            f"most, {worst['percent']:+.1f} %, at {worst['what']} ({worst['measured_ms']:.1f} ms measured)"
        )
    return Table("What a step takes", ("<coefficient", "value"), coefficients, note + ".")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _seconds(milliseconds: float | None) -> str:
    return _number(None if milliseconds is None else milliseconds / 1e3)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.2f}"
