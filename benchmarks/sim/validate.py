"""Are simulated first-token times those of a real server? Our own, on this machine's CPU.

    python -m benchmarks.sim.validate [--out FOLDER] [--model MODEL]

starts a server with a small KV cache, runs ``anaphora bench all`` on it, then loads of chats that share system
prompts. Step durations are fitted to the bench run alone; the loads are what they have to predict. Before, between and
after the loads come a few chats far apart, each alone on the server: what the model says of those tells how much
slower the machine is than it was during the bench run. Results go to ``benchmarks/results/sim``. Takes five minutes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from array import array
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu import procfs
from benchmarks.cpu.meter import Meter
from benchmarks.cpu.servers import Server
from benchmarks.sim.drive import Measured, measure
from benchmarks.sim.load import Load, chats

from anaphora.lab.step_durations import observations_of
from anaphora.sim.latency_fit import LatencyFit, fit_latency
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.sweep import RunPlan
from anaphora.sim.timed_sweep import ServerLimits, TimedPlan, TimedSweep
from anaphora.traces.records import read_run
from anaphora.traces.request import TokenPrompt, Trace, TraceRequest
from anaphora.types import Namespace

RESULTS = Path(__file__).parents[1] / "results" / "sim"
NUM_BLOCKS = 180
"""Too few for all prompts of a load, so that some are evicted; enough for any one prompt of the bench run."""
TOKEN_BUDGET = 2048
SERVER_OPTIONS = f"--num-gpu-blocks-override {NUM_BLOCKS} --eviction-policy lru --num-threads 1"
"""One thread: two that wait for each other at every layer would make the most of each disturbance."""
LOADS = (
    Load("light", rate=0.5, num_requests=20),
    Load("heavy", rate=1.5, num_requests=45),
    Load("no sharing", rate=0.4, num_requests=15, cached=False),
)
ALONE = [Load("alone", rate=0.25, num_requests=4, seed=seed, is_even=True) for seed in range(len(LOADS) + 1)]
IN_TURN = [load for pair in zip(ALONE, LOADS, strict=False) for load in pair] + ALONE[-1:]
BENCH = (
    *("--lengths", "256,768,1536", "--repeats", "2"),
    *("--questions", "4", "--prefix-tokens", "512", "--output-tokens", "32"),
)


def main() -> None:
    """Measure, predict, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--model", default="", help="a model folder; without one, the default model")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="validate-") as folder:
        report, bench_usage, measured = _measure(Path(folder), options.model)
        fit = fit_latency(observations_of(read_run(report), token_budget=TOKEN_BUDGET))
        (options.out / "records.jsonl").write_bytes((report / "records.jsonl").read_bytes())
    results = {
        "environment": procfs.describe_hardware(),
        "num_blocks": NUM_BLOCKS,
        "bench": bench_usage,
        "latency": {"coefficients": fit.model.to_json(), **fit.to_json()},
        "loads": [
            {**_compare(load, seen, fit), **usage} for load, (seen, usage) in zip(IN_TURN, measured, strict=True)
        ],
    }
    (options.out / "validation.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (options.out / "table.md").write_text(table(results) + "\n", "utf-8")
    print(table(results))


Usage = dict[str, float]
"""Who used the processors."""


def _measure(folder: Path, model: str) -> tuple[Path, Usage, list[tuple[list[Measured], Usage]]]:
    """The report folder of the bench run, and the loads as they went; with the use of the processors meanwhile."""
    report = folder / "report"
    command = f"{sys.executable} -m anaphora serve {model} --port {{port}} {SERVER_OPTIONS}"
    server = Server("ours", command, folder / "server.log")
    try:
        server.start()
        bench = [sys.executable, "-m", "anaphora", "bench", "all", "--target", server.base_url, *BENCH]
        meter = Meter(server)
        subprocess.run([*bench, "--out", str(report)], check=True)
        bench_usage = meter.read()
        measured = []
        for load in IN_TURN:
            meter = Meter(server)
            seen = asyncio.run(measure(server.base_url, server.model(), chats(load)))
            measured.append((seen, meter.read()))
        return report, bench_usage, measured
    finally:
        server.stop()


def _compare(load: Load, measured: list[Measured], fit: LatencyFit) -> dict[str, Any]:
    """A load as it went, and as the simulator says it should have gone."""
    requests = tuple(
        TraceRequest(
            line=number,
            arrival_s=one.sent_s,
            prompt=TokenPrompt(array("I", one.token_ids)),
            num_output_tokens=one.num_output_tokens,
            namespace=Namespace(one.salt),
        )
        for number, one in enumerate(measured, 1)
    )
    trace = Trace(Path(load.name), "measured", None, len(requests), requests, ())
    sweep = TimedSweep(cut_into_blocks(trace, 16), fit.model, ServerLimits(max_num_batched_tokens=TOKEN_BUDGET))
    served = sweep.timeline(TimedPlan(RunPlan("lru", NUM_BLOCKS), True)).requests
    predicted = [1e3 * (one.ttft_s or 0.0) for one in served]
    cached = [0 if one.ledger is None else one.ledger.num_cached_tokens for one in served]
    return {
        **asdict(load),
        "prompt_tokens": sum(len(one.token_ids) for one in measured),
        "measured": _summary([one.ttft_ms for one in measured], [one.num_cached_tokens for one in measured]),
        "predicted": _summary(predicted, cached),
        "requests_with_equal_cached_tokens": sum(
            one.num_cached_tokens == number for one, number in zip(measured, cached, strict=True)
        ),
        "requests": [
            {
                "sent_s": round(one.sent_s, 6),
                "prompt_tokens": len(one.token_ids),
                "output_tokens": one.num_output_tokens,
                "measured_ttft_ms": round(one.ttft_ms, 3),
                "predicted_ttft_ms": round(milliseconds, 3),
                "measured_cached_tokens": one.num_cached_tokens,
                "predicted_cached_tokens": number,
            }
            for one, milliseconds, number in zip(measured, predicted, cached, strict=True)
        ],
    }


def _summary(ttfts_ms: list[float], cached: list[int]) -> dict[str, float]:
    p50, p90, p99 = np.quantile(ttfts_ms, (0.5, 0.9, 0.99))
    return {
        "mean_ms": float(np.mean(ttfts_ms)),
        "p50_ms": float(p50),
        "p90_ms": float(p90),
        "p99_ms": float(p99),
        "cached_tokens": sum(cached),
    }


def table(results: dict[str, Any]) -> str:
    """The comparison in Markdown."""
    head = "| load | requests/s | cached tokens | mean | p50 | p90 | p99 |\n| --- | --- | --- | --- | --- | --- | --- |"
    rows = []
    for load in results["loads"]:
        seen, said = load["measured"], load["predicted"]
        cells = [_cell(seen[f"{name}_ms"], said[f"{name}_ms"]) for name in ("mean", "p50", "p90", "p99")]
        cached = f"{seen['cached_tokens']:,} / {said['cached_tokens']:,}"
        rows.append(f"| {load['name']} | {load['rate']:g} | {cached} | {' | '.join(cells)} |")
    hardware, fit = results["environment"], results["latency"]
    bench = results.get("bench")
    bench_foreign = f"during the bench run: {bench['foreign_cores']:.2f}; " if bench else ""
    foreign = ", ".join(f"{load['foreign_cores']:.2f}" for load in results["loads"])
    notes = (
        f"- {hardware['cpu']}, {hardware['cores']} cores; SmolLM2-135M-Instruct in float32, {results['num_blocks']} "
        "blocks, policy lru, one thread. Command: `python -m benchmarks.sim.validate`",
        f"- The fit is {100 * fit['mean_relative_error']:.1f} % off in the mean, over {len(fit['residuals'])} medians "
        "of the bench run.",
        f"- Cores used by other programs {bench_foreign}during the loads: {foreign}.",
    )
    return "\n".join([*notes, "", head, *rows])


def _cell(seen: float, said: float) -> str:
    return f"{seen:,.0f} / {said:,.0f} ({100 * (said / seen - 1):+.0f} %)"


if __name__ == "__main__":
    main()
