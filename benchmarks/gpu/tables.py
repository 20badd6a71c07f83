"""Tables of what was measured on the H200, for the documentation. Standard library alone."""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.markdown import table

RESULTS = Path(__file__).parents[1] / "results" / "h200"
SEED_SWITCH = {"off_ms": 1562.0, "on_ms": 1274.0}
"""A published run of vLLM with Qwen2.5-7B-Instruct in bfloat16 on an RTX 3090: 8 questions behind 1 488 tokens, whole
answers of 64 tokens, mean of the second to the eighth."""
SEED_FIT = {"off": 207.60, "on": 6.94}
"""Its slopes, ms per 1000 prompt tokens, from 353 to 3 961; one output token."""


def _read(name: str) -> Any:
    return json.loads((RESULTS / name).read_text("utf-8"))


def _drop(off: float, on: float) -> str:
    return f"{100 * (on - off) / off:+.1f} %".replace("-", "−")


def seeds() -> str:
    """Both seed experiments on the GPU, beside the published figures and vLLM's in the comparison."""
    found = _read("seeds/results.json")["experiments"]
    switch, fit = found["switch"], found["gradient"]["fit"]
    rows = {row["name"]: row for row in _read("summary.json")["rows"]}
    cold, hit = rows["cold, 3961 tokens"], rows["hit, 3961 tokens"]
    on_slope = rows["hit slope"]
    lines: list[tuple[str, ...]] = [
        (
            "RTX 3090, vLLM (published)",
            f"{SEED_SWITCH['off_ms']:,.0f} → {SEED_SWITCH['on_ms']:,.0f} ({_drop(**_arms(SEED_SWITCH))})",
            "–",
            f"{SEED_FIT['off']:.2f} → {SEED_FIT['on']:.2f} ({_drop(**SEED_FIT)})",
            "852.7 → 62.8",
        )
    ]
    for name, title in (("vllm_default", "H200, vLLM, default"), ("vllm_rust", "H200, vLLM, Rust front end")):
        slopes = _cold_slope(rows, name), on_slope[name]
        lines.append(
            (
                title,
                "–",
                "–",
                f"{slopes[0]:.2f} → {slopes[1]:.2f} ({_drop(*slopes)})",
                f"{cold[name]:.1f} → {hit[name]:.1f}",
            )
        )
    e2e, ttft = ((switch["off"][f"{m}_ms_median"], switch["on"][f"{m}_ms_median"]) for m in ("e2e", "ttft"))
    slopes = fit["off"]["slope_ms_per_ktoken"], fit["on"]["slope_ms_per_ktoken"]
    lines.append(
        (
            "H200, ours, `anaphora bench all`",
            f"{e2e[0]:.0f} → {e2e[1]:.0f} ({_drop(*e2e)})",
            f"{ttft[0]:.1f} → {ttft[1]:.1f} ({_drop(*ttft)})",
            f"{slopes[0]:.2f} → {slopes[1]:.2f} ({_drop(*slopes)})",
            f"{cold['ours']:.1f} → {hit['ours']:.1f}",
        )
    )
    head = (
        "server",
        "switch: whole answer, ms",
        "switch: first token, ms",
        "gradient: slope, ms per 1000 tokens",
        "first token at 3 961 tokens, ms",
    )
    return table(head, lines, num_named=1)


def _arms(switch: dict[str, float]) -> dict[str, float]:
    return {"off": switch["off_ms"], "on": switch["on_ms"]}


def _cold_slope(rows: dict[str, Any], server: str) -> float:
    """Of the line through cold prompts of 1 337 and 3 961 tokens."""
    short, long = rows["cold, 1337 tokens"][server], rows["cold, 3961 tokens"][server]
    return float(1000 * (long - short) / (3961 - 1337))


def products() -> str:
    """A layer's products of few rows, the library's and ours, each with the operator behind it."""
    found = _read("products.json")
    us = {(r["product"], r["rows"], r["by"], r.get("early")): r["us"] for r in found["rows"]}
    names = {"qkv": "queries, keys, values", "output": "output", "gate_up": "gate and up", "down": "down"}
    counts = (1, 24, 64)
    head = ["product", *(text for n in counts for text in (f"{n} row{'s' * (n > 1)}: library", "ours"))]
    rows = []
    for name, title in names.items():
        ours = [min(us[name, n, "ours", True], us[name, n, "ours", False]) for n in counts]
        library = [us[name, n, "library", None] for n in counts]
        rows.append((title, *(f"{value:.1f}" for pair in zip(library, ours, strict=True) for value in pair)))
    return f"{found['gpu']}, torch {found['torch']}; microseconds a layer.\n\n{table(head, rows, num_named=1)}"


def batch_invariance() -> str:
    """What ``--deterministic`` gives and costs."""
    found = _read("batch-invariance.json")
    head = ("mode", "largest difference of a logit", "cold, 3 961 tokens, ms", "hit, ms", "decode step, ms")
    rows = [
        (
            title,
            f"{max(found[key]['differences'].values()):.2g}",
            *(f"{found[key]['median_ms'][name]:.2f}" for name in ("cold", "hit", "decode")),
        )
        for key, title in (("default", "as usual"), ("deterministic", "`--deterministic`"))
    ]
    return table(head, rows, num_named=1)


def agreement() -> str:
    """The GPU's logits against transformers', and a real model's choices against float32 on the CPU."""
    found = _read("agreement.json")
    by_dtype: dict[str, list[dict[str, Any]]] = {}
    for row in found["tiny"]:
        by_dtype.setdefault(row["dtype"], []).append(row)
    rows = [
        (
            f"{len(group)} tiny random models, {dtype}",
            f"{max(row['relative_error'] for row in group):.1e}",
            _worst_alone(group),
            f"{100 * min(row['top_1_agreement'] for row in group):.1f} %",
        )
        for dtype, group in by_dtype.items()
    ]
    real = found["real"]
    about = f"{real['model']}, bfloat16, {real['tokens']} tokens"
    rows.append((about, "–", "–", f"{100 * real['top_1_agreement']:.1f} %"))
    head = (
        "model",
        "relative error of the logits, worst",
        "of a last row computed alone, worst",
        "same likeliest token, worst",
    )
    return table(head, rows, num_named=1)


def _worst_alone(group: list[dict[str, Any]]) -> str:
    name = "relative_error_of_a_row_alone"
    return f"{max(row[name] for row in group):.1e}" if all(name in row for row in group) else "–"


def overload() -> str:
    """What became of the requests in each scene of the overload benchmark, and what the server counted meanwhile."""
    head = (
        "scene",
        "answered",
        "refused",
        "failed",
        "left",
        "preemptions",
        "evicted blocks",
        "known questions answered as alone",
        "seconds",
    )
    rows = []
    for server in _read("overload.json")["servers"]:
        where = f", {server['front_ends']} front ends" if server["front_ends"] else ""
        for scene in server["scenes"]:
            same, grown = scene["same_as_alone"], scene["grown"]
            num_known = same["same"] + same["different"]
            rows.append(
                (
                    f"{scene['scene']}{where}",
                    *(f"{_ended(scene, kind):,}" for kind in ("answered", "refused", "failed", "left")),
                    f"{grown['preemptions']:,}",
                    f"{grown['evicted_blocks']:,}",
                    f"{same['same']} of {num_known}" if num_known else "–",
                    f"{scene['seconds']:.1f}",
                )
            )
    return table(head, rows, num_named=1)


def _ended(scene: dict[str, Any], kind: str) -> int:
    """How many requests ended in a way whose label begins so."""
    return sum(count for label, count in scene["ended"].items() if label.startswith(kind))


STAGES = (
    ("the network and HTTP, in", "", "received"),
    ("body, template, tokens, checks", "received", "handed over"),
    ("to the engine's thread", "handed over", "stepping"),
    ("look up, schedule", "stepping", "planning"),
    ("plan, inputs, launch", "planning", "launched"),
    ("the GPU, and back", "launched", "sampled"),
    ("update, ledger", "sampled", "stepped"),
    ("to the event loop, text, event", "stepped", "answering"),
    ("HTTP and the network, out", "answering", "first token at the client"),
)
"""Name, and the stations between which it is."""


def hit_split() -> str:
    """Where the time of a hit went, one stage after the other."""
    by_length = _read("hit_split.json")["ms"]
    rows = [
        (name, *(f"{ms[end] - ms.get(start, 0.0):.2f}" for ms in by_length.values())) for name, start, end in STAGES
    ]
    rows.append(("all", *(f"{ms['first token at the client']:.2f}" for ms in by_length.values())))
    return table(("stage, ms", *(f"{int(length):,} tokens" for length in by_length)), rows, num_named=1)


SECOND_RUN = "2026-12-01T091901"
"""In the other order, vLLM first."""


def again() -> str:
    """Prompts with a prefix in the second run, as they are in the comparison."""
    lines = (RESULTS / SECOND_RUN / "raw.jsonl").read_text("utf-8").splitlines()
    values: dict[tuple[str, int, str], list[float]] = {}
    for sample in map(json.loads, lines):
        if sample["length"] is not None:
            values.setdefault((sample["measure"], sample["length"], sample["server"]), []).append(sample["value"])
    rows = []
    for measure, length in sorted({key[:2] for key in values}):
        ours, rust = (values[measure, length, server] for server in ("ours", "vllm_rust"))
        medians = statistics.median(ours), statistics.median(rust)
        what = f"{measure.partition('_')[0]}, {length:,} tokens"
        spreads = (
            f"{median:.1f} ({min(of):.1f} to {max(of):.1f})" for median, of in zip(medians, (ours, rust), strict=True)
        )
        rows.append((what, *spreads, f"{medians[0] / medians[1]:.2f}"))
    return table(("median (least to most), ms", "ours", "vLLM, Rust front end", "ratio"), rows, num_named=1)


FIGURES = (
    ("cold", "median_ms", "cold, {} tokens: all"),
    ("cold", "host_ms", "cold, {} tokens: the host's launches"),
    ("streams", "decode_step_ms", "64 streams behind {} tokens: a decode step"),
    ("streams", "all_ms", "64 streams behind {} tokens: 64 tokens each"),
)
"""Of versions of the engine: what was measured, which figure of it, and its name."""


def passes() -> str:
    """Versions of the engine by turns, the earlier one first: medians over their rounds."""
    found = _read("passes.json")
    values: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in sorted(found["rows"], key=lambda row: found["trees"].index(row["tree"])):
        for kind, figure, name in FIGURES:
            for length, figures in row.get(kind, {}).items():
                of_trees = values.setdefault((length, name), {})
                of_trees.setdefault(row["tree"], []).append(figures[figure])
    lines = []
    for (length, name), of_trees in values.items():
        medians = {tree: statistics.median(of) for tree, of in of_trees.items()}
        shown = (f"`{tree}`: {median:.2f}" for tree, median in medians.items())
        lines.append((name.format(f"{int(length):,}"), *shown, _drop(*medians.values())))
    return table(("ms", "before", "after", "change"), lines, num_named=1)


TABLES: dict[str, Callable[[], str]] = {
    "gpu_seeds": seeds,
    "gpu_again": again,
    "gpu_passes": passes,
    "gpu_split": hit_split,
    "gpu_products": products,
    "gpu_batch_invariance": batch_invariance,
    "gpu_agreement": agreement,
    "gpu_overload": overload,
}
