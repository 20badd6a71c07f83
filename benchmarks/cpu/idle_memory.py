"""What memory costs that was not touched for a while: one thread reads as many bytes as SmolLM2 has weights.

    python -m benchmarks.cpu.idle_memory [--json FILE]

On most machines the first read after a pause takes what every read takes. On a virtual machine whose host takes idle
pages from it, it takes several times as long, without any page fault in the guest; every server that rests between
requests pays that.
"""

import argparse
import json
import resource
import time
from pathlib import Path

import numpy as np
from benchmarks.cpu.procfs import describe_hardware

NUM_BYTES = 536_000_000
PAUSES_S = (0.0, 0.3, 1.0, 3.0)
REPEATS = 3


def read_ms(memory: np.ndarray) -> float:
    """Milliseconds of one pass over ``memory``."""
    before = time.perf_counter()
    memory.max()
    return 1000 * (time.perf_counter() - before)


def faults() -> int:
    """Page faults of this process so far."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_minflt + usage.ru_majflt


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="keep the figures here")
    options = parser.parse_args()
    memory = np.ones(NUM_BYTES // 4, dtype=np.float32)
    read_ms(memory)
    rows = []
    for pause_s in PAUSES_S:
        for _ in range(REPEATS):
            time.sleep(pause_s)
            before = faults()
            first, again = read_ms(memory), read_ms(memory)
            rows.append({"pause_s": pause_s, "first_ms": first, "again_ms": again, "faults": faults() - before})
            print(f"after {pause_s:g} s: {first:.0f} ms, again {again:.0f} ms, {rows[-1]['faults']} faults")
    if options.json:
        found = {"hardware": describe_hardware(), "num_bytes": NUM_BYTES, "rows": rows}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
