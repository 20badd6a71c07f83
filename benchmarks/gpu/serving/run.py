"""Measure servers on this machine's GPU, one after another, and write samples, summary and table.

    python -m benchmarks.gpu.serving.run --tokenizer MODEL --out RESULTS \\
        --server ours='anaphora serve MODEL --load-format dummy --port {port} ...' \\
        --server vllm_rust='env VLLM_USE_RUST_FRONTEND=1 vllm serve MODEL --load-format dummy --port {port} ...'

``--render RESULTS/RUN`` makes summary and table again from the samples.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cpu.sample import Recorder, Sample, read_samples
from benchmarks.cpu.servers import Server, portable
from benchmarks.gpu.serving.measure import BURSTS, LENGTHS, Amounts, Course
from benchmarks.gpu.serving.prompts import Texts
from benchmarks.gpu.serving.rows import summarise
from benchmarks.gpu.serving.table import render

PHASES = "prefixes,decode,bursts"


def main() -> None:
    """See the module."""
    options = _options()
    if options.render is not None:
        write_summary(options.render)
        return
    folder = options.out / time.strftime("%Y-%m-%dT%H%M%S")
    folder.mkdir(parents=True)
    texts = Texts(options.tokenizer)
    recorder = Recorder(folder / "raw.jsonl")
    run: dict[str, Any] = {"run": folder.name, "hardware": describe_gpu(), "commands": {}, "versions": {}, "notes": []}
    for text in options.server:
        name, _, command = text.partition("=")
        run["commands"][name] = portable(command)
        try:
            run["versions"][name] = _measure(name, command, options, texts, recorder, folder)
        except Exception as error:  # the others are measured all the same
            run["notes"].append(f"FAILED: {name}: {error!r}")
            print(run["notes"][-1], file=sys.stderr, flush=True)
        (folder / "run.json").write_text(json.dumps(run, indent=1) + "\n")
    write_summary(folder)


def write_summary(folder: Path) -> None:
    """Make ``summary.json`` and ``table.md`` beside a run's folder from its samples."""
    run = json.loads((folder / "run.json").read_text("utf-8"))
    summary = summarise(read_samples(folder / "raw.jsonl"), run, f"{folder.name}/raw.jsonl")
    (folder.parent / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    (folder.parent / "table.md").write_text(render(summary))


def _measure(
    name: str, command: str, options: argparse.Namespace, texts: Texts, recorder: Recorder, folder: Path
) -> str:
    """Start a server as often as asked for, measure the last one, stop it. Returns its version."""
    server = Server(name, command, folder / f"{name}.log")
    amounts = Amounts(lengths=options.lengths, colds=options.colds)
    if options.quick:
        amounts = replace(amounts, colds=2, bursts=dict.fromkeys(BURSTS, 1), decodes=1)
    try:
        for number in range(2 if name in options.twice else 1):
            server.stop()
            recorder.add(Sample(measure="ready_s", server=name, value=server.start(), round=number))
        course = Course(name, server.port, server.model(), texts, amounts)
        for sample in course.run(options.phases.split(",")):
            recorder.add(sample)
        return server.version()
    finally:
        server.stop()


def describe_gpu() -> str:
    """Name, memory and driver of the GPU as ``nvidia-smi`` tells them, or ``no GPU``."""
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "no GPU"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", type=Path, help="folder with the model's tokenizer.json")
    parser.add_argument("--server", action="append", default=[], help="NAME=COMMAND; {port} is replaced")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/h200"))
    parser.add_argument("--phases", default=PHASES)
    parser.add_argument("--lengths", type=_numbers, default=LENGTHS, help="tokens of prompts with a prefix: N,N,…")
    parser.add_argument("--colds", type=int, default=20, help="cold requests of each length")
    parser.add_argument("--twice", action="append", default=[], help="a server's name: start it twice, then measure it")
    parser.add_argument("--quick", action="store_true", help="two cold requests a length, one burst, one decode")
    parser.add_argument("--render", type=Path, help="a run's folder: only make summary and table again")
    return parser.parse_args()


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


if __name__ == "__main__":
    main()
