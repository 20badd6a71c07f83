"""What does `anaphora simulate` take? Whole commands, from the shell's view: time, processor time, peak memory.

    python -m benchmarks.sim.speed TRACE [--repeats N] [--only NAME ...] [--out FOLDER]

``TRACE`` is Mooncake's conversation trace. The long trace is that one again and again, until it has ten million block
uses: each time all ids and times are shifted past those before, so that no two rounds share anything, and the cache is
as large as a fifth of *one* round's distinct blocks, so that every round evicts as much as the trace itself. Results
go to ``benchmarks/results/sim``; arms that are not run anew keep what they had.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import busy_time_s, describe_hardware, pss_mib
from benchmarks.markdown import table as markdown_table

RESULTS = Path(__file__).parents[1] / "results" / "sim"
NUM_USES = 10_000_000
LATENCIES = {
    "keeps up": {"step_ms": 5, "computed_ms_per_ktoken": 8, "read_ms_per_ktoken": 0.005, "attention_ms_per_mpair": 0.1},
    "overloaded": {
        "step_ms": 8,
        "computed_ms_per_ktoken": 30,
        "read_ms_per_ktoken": 0.01,
        "attention_ms_per_mpair": 0.2,
    },
}
"""Servers in time: one that computes all prompts as they come, and one that falls behind."""
WATCH_S = 0.25
LONG_WATCH_S = 2.0
"""How often memory is looked at: to count pages takes time too, the more of it the more there are."""
NUM_TIMED = 3000
"""Requests of a simulation in time: it makes each twice, with the cache and without."""


@dataclass(frozen=True, slots=True)
class Arm:
    """One command: ``options`` after the trace's name."""

    name: str
    options: tuple[str, ...]
    is_long: bool = False


def arms(distinct: int, latencies: dict[str, Path]) -> Iterator[Arm]:
    """Everything that is measured. ``distinct``: blocks of the trace."""
    for policy in ("lru", "default"):
        for capacity in ("5%", "20%", "inf"):
            yield Arm(f"{policy}, {capacity}", ("--policy", policy, "--capacity", capacity))
    for policy in ("lru", "default"):
        size = ("--capacity", str(distinct // 5))
        yield Arm(f"{policy}, ten million block uses", ("--policy", policy, *size), is_long=True)
    for name, path in latencies.items():
        timed = ("--capacity", "20%", "--policy", "lru", "--first", str(NUM_TIMED), "--latency", str(path))
        yield Arm(f"in time, {NUM_TIMED:,} requests, server {name}", timed)


class MemoryWatch(threading.Thread):
    """Looks now and then at how much memory a process and its children take, pages that they share counted once."""

    def __init__(self, process: int, every_s: float) -> None:
        super().__init__(daemon=True)
        self._process, self._every_s = process, every_s
        self._peak_mib, self._is_over = 0.0, threading.Event()
        self.start()

    def run(self) -> None:
        """Until :meth:`stop`."""
        children = Path(f"/proc/{self._process}/task/{self._process}/children")
        while not self._is_over.wait(self._every_s):
            with suppress(OSError):
                processes = [self._process, *map(int, children.read_text().split())]
                self._peak_mib = max(self._peak_mib, pss_mib(processes))

    def stop(self) -> float:
        """The most that was seen, in MiB."""
        self._is_over.set()
        self.join()
        return self._peak_mib


def measure(trace: Path, arm: Arm) -> dict[str, float]:
    """Seconds from start to end, seconds of processors, peak MiB of all processes together, cores that others used."""
    command = [sys.executable, "-m", "anaphora", "simulate", str(trace), "--json", *arm.options]
    busy_s, start_s = busy_time_s(), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        watch = MemoryWatch(process.pid, every_s=LONG_WATCH_S if arm.is_long else WATCH_S)
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - start_s
        process.returncode = os.waitstatus_to_exitcode(status)
    peak_mib = max(watch.stop(), usage.ru_maxrss / 1024)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    cpu_s = usage.ru_utime + usage.ru_stime
    return {
        "wall_s": round(wall_s, 3),
        "cpu_s": round(cpu_s, 3),
        "peak_mib": round(peak_mib, 1),
        "foreign_cores": round(max(0.0, busy_time_s() - busy_s - cpu_s) / wall_s, 2),
    }


def lengthen(rows: list[dict[str, Any]], num_rounds: int, target: Path) -> None:
    """Write the long trace."""
    step = 1 + max(max(row["hash_ids"]) for row in rows)
    step_ms = 1000 + max(row["timestamp"] for row in rows)
    with gzip.open(target, "wt", encoding="utf-8", compresslevel=1) as file:
        for number in range(num_rounds):
            for row in rows:
                moved = [block_id + number * step for block_id in row["hash_ids"]]
                at_ms = row["timestamp"] + number * step_ms
                file.write(json.dumps({**row, "hash_ids": moved, "timestamp": at_ms}) + "\n")


def main() -> None:
    """Measure, keep, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--repeats", type=int, default=3, help="of each command but those on the long trace")
    parser.add_argument("--only", nargs="*", default=[], help="arms whose names begin so")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    kept = options.out / "speed.json"
    results: dict[str, Any] = json.loads(kept.read_text("utf-8")) if kept.exists() else {"arms": {}}
    results["environment"] = describe_hardware()
    with gzip.open(options.trace, "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    distinct = len({block_id for row in rows for block_id in row["hash_ids"]})
    results["rounds"] = -(-NUM_USES // sum(len(row["hash_ids"]) for row in rows))
    with tempfile.TemporaryDirectory(prefix="speed-") as name:
        folder = Path(name)
        latencies = {name: folder / f"{name}.json" for name in LATENCIES}
        for server, path in latencies.items():
            path.write_text(json.dumps(LATENCIES[server]), "utf-8")
        long_trace = folder / "long.jsonl.gz"
        for arm in arms(distinct, latencies):
            if options.only and not arm.name.startswith(tuple(options.only)):
                continue
            if arm.is_long and not long_trace.exists():
                lengthen(rows, results["rounds"], long_trace)
            trace, repeats = (long_trace, 1) if arm.is_long else (options.trace, options.repeats)
            samples = results["arms"][arm.name] = [measure(trace, arm) for _ in range(repeats)]
            print(f"{arm.name}: {samples}", flush=True)
            kept.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (options.out / "speed.md").write_text(table(results) + "\n", "utf-8")
    print(table(results))


def table(results: dict[str, Any]) -> str:
    """In Markdown, the least of each arm's samples, for what others do can only add; of peaks the highest."""
    hardware, rows = results["environment"], []
    for name, samples in results["arms"].items():
        least = {key: min(sample[key] for sample in samples) for key in samples[0]}
        peak_mib = max(sample["peak_mib"] for sample in samples)
        cells = (f"{least['wall_s']:.2f}", f"{least['cpu_s']:.2f}", f"{peak_mib:.0f}")
        rows.append((name, *cells, f"{least['foreign_cores']:.2f}"))
    head = ("what", "seconds", "processor seconds", "peak MiB, all processes", "cores used by others")
    note = (
        f"{hardware['cpu']}, {hardware['cores']} cores, Python {hardware['python']}; "
        f"the long trace is {results['rounds']} rounds of the trace."
    )
    return f"{note}\n\n{markdown_table(head, rows, num_named=1)}"


if __name__ == "__main__":
    main()
