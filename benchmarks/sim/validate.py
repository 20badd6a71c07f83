"""Are simulated first-token times those of a real server? Our own, on this machine's CPU.

    python -m benchmarks.sim.validate [--out FOLDER] [--model MODEL]

starts a server with a small KV cache and sends it loads of chats that share system prompts; before and after these it
runs ``anaphora bench switch`` and ``bench costs`` on it. Step durations are fitted to the bench runs alone; the loads
are what they have to predict. Before, between and after the loads come a few chats far apart, each alone on the
server: what the model says of those tells how much slower the machine is than it was during the bench runs. Results
go to ``benchmarks/results/sim``. Takes five minutes.
"""

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu import procfs
from benchmarks.cpu.meter import Meter
from benchmarks.cpu.servers import Server
from benchmarks.sim.comparison import compare, keep_prompts, kept
from benchmarks.sim.drive import Measured, measure
from benchmarks.sim.load import Load, chats

from anaphora.lab.step_durations import observations_of
from anaphora.sim.latency_fit import LatencyFit, fit_latency
from anaphora.traces.records import read_run

RESULTS = Path(__file__).parents[1] / "results" / "sim"
NUM_BLOCKS = 180
"""Too few for all prompts of a load, so that some are evicted; enough for any one prompt of the bench run."""
TOKEN_BUDGET = 2048
TARGET = 0
"""Prompt tokens from which on nobody joins a step: any may, as when the kept loads were measured."""
LIMITS = {"num_blocks": NUM_BLOCKS, "token_budget": TOKEN_BUDGET, "target_prefill_tokens": TARGET}
SERVER_OPTIONS = (
    f"--num-gpu-blocks-override {NUM_BLOCKS} --eviction-policy lru --num-threads 1 --target-prefill-tokens {TARGET}"
)
"""One thread: two that wait for each other at every layer would make the most of each disturbance."""
LOADS = (
    Load("light", rate=0.5, num_requests=20),
    Load("heavy", rate=1.5, num_requests=45),
    Load("no sharing", rate=0.4, num_requests=15, cached=False),
)
ALONE = [Load("alone", rate=0.25, num_requests=4, seed=seed, is_even=True) for seed in range(len(LOADS) + 1)]
IN_TURN = [load for pair in zip(ALONE, LOADS, strict=False) for load in pair] + ALONE[-1:]
_ANSWERS = ("--output-tokens", "32")
_COSTS = ("costs", "--prefixes", "0,512,1024", "--endings", "32,256,640", "--steps", "0", "--repeats", "2")
BENCH = {
    "short": ("switch", "--prefix-tokens", "256", "--questions", "4", *_ANSWERS),
    "costs": _COSTS,
    "costs-after": _COSTS,
    "long": ("switch", "--prefix-tokens", "1024", "--questions", "3", *_ANSWERS),
}
"""Times between tokens after few and after many; and TTFTs of which computed and cached tokens vary apart. The first
two run before the loads and the others after them: the machine may be faster at one time than at another."""
NUM_BEFORE = 2


def main() -> None:
    """Measure, predict, compare, write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--model", default="", help="a model folder; without one, the default model")
    parser.add_argument("--again", action="store_true", help="measure nothing: fit and predict what is kept once more")
    options = parser.parse_args()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    if options.again:
        before = json.loads((folder / "validation.json").read_text("utf-8"))
        loads = before["loads"]
        circumstances = {name: before[name] for name in ("environment", "num_blocks", "bench")}
        usages = [{name: load[name] for name in ("server_cores", "foreign_cores")} for load in loads]
        measured = list(zip(kept(folder, loads), usages, strict=True))
    else:
        bench_usage, measured = _measure(folder, options.model)
        circumstances = {"environment": procfs.describe_hardware(), "num_blocks": NUM_BLOCKS, "bench": bench_usage}
        keep_prompts(folder, [seen for seen, _ in measured])
    fit = fit_of([folder / name for name in BENCH])
    results = {
        **circumstances,
        "latency": {"coefficients": fit.model.to_json(), **fit.to_json()},
        "loads": [
            {**compare(load, seen, fit.model, **LIMITS), **usage}
            for load, (seen, usage) in zip(IN_TURN, measured, strict=True)
        ],
    }
    (folder / "validation.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (folder / "table.md").write_text(table(results) + "\n", "utf-8")
    print(table(results))


def fit_of(reports: Sequence[Path]) -> LatencyFit:
    """The model, as ``anaphora simulate`` fits it to several report folders."""
    return fit_latency([one for path in reports for one in observations_of(read_run(path), token_budget=TOKEN_BUDGET)])


Usage = dict[str, float]
"""Who used the processors."""


def _bench(server: Server, name: str, folder: Path, out: Path) -> Usage:
    """Run one, keep its records; the use of the processors meanwhile."""
    meter = Meter(server)
    command = [sys.executable, "-m", "anaphora", "bench", *BENCH[name], "--target", server.base_url]
    subprocess.run([*command, "--out", str(folder / name)], check=True)
    (out / name).mkdir(exist_ok=True)
    (out / name / "records.jsonl").write_bytes((folder / name / "records.jsonl").read_bytes())
    return meter.read()


def _measure(out: Path, model: str) -> tuple[dict[str, Usage], list[tuple[list[Measured], Usage]]]:
    """Keep the records of the bench runs; the loads as they went; and the use of the processors meanwhile."""
    command = f"{sys.executable} -m anaphora serve {model} --port {{port}} {SERVER_OPTIONS}"
    with tempfile.TemporaryDirectory(prefix="validate-") as name:
        folder = Path(name)
        server = Server("ours", command, folder / "server.log")
        try:
            server.start()
            names = list(BENCH)
            usages = {name: _bench(server, name, folder, out) for name in names[:NUM_BEFORE]}
            measured = []
            for load in IN_TURN:
                meter = Meter(server)
                seen = asyncio.run(measure(server.base_url, server.model(), chats(load)))
                measured.append((seen, meter.read()))
            usages |= {name: _bench(server, name, folder, out) for name in names[NUM_BEFORE:]}
            return usages, measured
        finally:
            server.stop()


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
    benches = ", ".join(f"{usage['foreign_cores']:.2f}" for usage in results["bench"].values())
    foreign = ", ".join(f"{load['foreign_cores']:.2f}" for load in results["loads"])
    notes = (
        f"- {hardware['cpu']}, {hardware['cores']} cores; SmolLM2-135M-Instruct in float32, {results['num_blocks']} "
        "blocks, policy lru, one thread. Command: `python -m benchmarks.sim.validate`",
        f"- The fit is {100 * fit['mean_relative_error']:.1f} % off in the mean, over {len(fit['residuals'])} medians "
        "of the bench runs.",
        f"- Cores used by other programs during the bench runs (their client among them): {benches}; during the loads: "
        f"{foreign}.",
    )
    return "\n".join([*notes, "", head, *rows])


def _cell(seen: float, said: float) -> str:
    return f"{seen:,.0f} / {said:,.0f} ({100 * (said / seen - 1):+.0f} %)"


if __name__ == "__main__":
    main()
