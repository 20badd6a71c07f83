"""Kept results as the tables of ``docs/performance.md``.

Standard library alone: ``scripts/generate_docs.py`` loads it.
"""

import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

RESULTS = Path(__file__).parents[1] / "results" / "serving"


def front_ends() -> str:
    """What a burst costs the engine's process, by the number of front ends."""
    results = _read("front_ends")
    head = ["front ends", "output tokens", "engine's thread, ms", "event loop, ms", "TTFT, ms", "total, s"]
    rows = [
        [
            str(row["front_ends"] or "none"),
            str(row["output_tokens"]),
            f"{row['engine_cpu_ms']:.2f}",
            f"{row['loop_cpu_ms']:.2f}",
            f"{row['ttft_median_ms']:.0f} / {row['ttft_p99_ms']:.0f}",
            f"{row['total_s']:.2f}",
        ]
        for row in results["summary"]
    ]
    client = f"{results['clients']} clients; the client alone takes {results['client_events_per_s']:,} events a second."
    return f"{_conditions(results)}\n{client}\n\n{table(head, rows, num_named=1)}"


def host_path() -> str:
    """What a hit takes on the host, stage by stage, at each length."""
    results = _read("host_path")
    lengths = results["lengths"]
    head = ["stage"]
    for found in lengths:
        head += [f"{found['length']:,} tokens: least", "median"]
    rows = []
    for same in zip(*(found["stages"] for found in lengths), strict=True):
        name = f"{same[0]['stage']} (engine)" if same[0]["engine"] else same[0]["stage"]
        rows.append([name, *_times(same, "")])
    rows.append(["all but the channel", *_times(lengths, "total_")])
    rows.append(["the engine's own loop", *_times(lengths, "engine_")])
    rows.append(["aim for all", *[cell for found in lengths for cell in ("", f"{found['aim_ms']}")]])
    new = " and ".join(f"{found['tokenize_new_ms']:.2f} ms for {found['length']:,} tokens" for found in lengths)
    seen = f"Tokenizing a chat none of whose messages was seen before takes {new}."
    return f"{_conditions(results)}\n\n{table(head, rows, num_named=1)}\n\n{seen}"


def engine_loop() -> str:
    """What the engine's thread takes, before and now, and its stages now."""
    results, before = _read("engine_loop"), _read("engine_loop_before")
    pairs = list(zip(before["rows"], results["rows"], strict=True))
    rows = [
        [
            now["scenario"],
            f"{now['length']:,}",
            *[f"{one[name]:.2f}" for one in (then, now) for name in ("least_ms", "median_ms")],
            f"{now['least_ms'] / then['least_ms']:.2f}",
        ]
        for then, now in pairs
    ]
    head = ["processor time, ms", "tokens", "before: least", "median", "now: least", "median", "ratio of the least"]
    stages = [
        [stage, *[f"{row['stages_least_ms'][stage]:.3f}" for row in results["rows"]]]
        for stage in results["rows"][0]["stages_least_ms"]
    ]
    names = ["stage, least ms", *[f"{row['scenario']}, {row['length']:,}" for row in results["rows"]]]
    tables = table(head, rows, num_named=1), table(names, stages, num_named=1)
    return "\n\n".join((_conditions(results), *tables))


def _times(found: Iterable[dict[str, Any]], prefix: str) -> list[str]:
    return [f"{one[f'{prefix}{name}_ms']:.2f}" for one in found for name in ("least", "median")]


def _conditions(results: dict[str, Any]) -> str:
    """Where and how it was measured."""
    where = ", ".join(str(results[name]) for name in ("processor", "tokenizer") if name in results)
    note = f"; {results['note']}" if "note" in results else ""
    return f"{where}, Python {results['python']}{note}. `{results['command']}`."


def _read(name: str) -> dict[str, Any]:
    return dict[str, Any](json.loads((RESULTS / f"{name}.json").read_text("utf-8")))


def waves() -> str:
    """What it gives that a device has the next pass to go on with."""
    results = _read("waves")
    names = {
        "ttft_median_ms": "first token, median, ms",
        "ttft_last_ms": "last, ms",
        "total_ms": "all done, ms",
        "device_idle_ms": "device idle, ms",
    }
    rows = [
        [arm["arm"], *[_median_and_range([row[name] for row in arm["rounds"]]) for name in names]]
        for arm in results["arms"]
    ]
    return f"{_conditions(results)}\n\n{table(['', *names.values()], rows, num_named=1)}"


def _median_and_range(values: Sequence[float]) -> str:
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


TABLES: dict[str, Callable[[], str]] = {
    "front_ends": front_ends,
    "host_path": host_path,
    "engine_loop": engine_loop,
    "waves": waves,
}
