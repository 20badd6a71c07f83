"""What a busy machine does to the client's stamps, and what a real-time priority does against it.

    python -m benchmarks.lab.busy_client [OUT.json]

While twice as many processes as there are cores compute for nothing, `anaphora calibrate` measures 256 streams as it is
started usually, then under ``chrt -f 5``, which needs root on Linux. The kernel stamps every arrival, but of events
that are read together it only knows when the last one came: ``read_late_percent`` counts the others.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

OUT = Path(__file__).parents[1] / "results" / "lab" / "busy_client.json"
NUM_STREAMS = "256"
ARMS: Mapping[str, Sequence[str]] = {"as usual": (), "under chrt -f 5": ("chrt", "-f", "5")}


def calibrated(prefix: Sequence[str]) -> dict[str, Any]:
    """What the command prints."""
    command = [*prefix, sys.executable, "-m", "anaphora", "calibrate", "--concurrency", NUM_STREAMS, "--json"]
    return dict(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))


def main() -> None:
    """Measure both ways, and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    options = parser.parse_args()
    num_busy = 2 * (os.cpu_count() or 1)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(num_busy)]
    try:
        rows = {name: calibrated(prefix) for name, prefix in ARMS.items()}
    finally:
        for process in busy:
            process.kill()
            process.wait()
    found = {"num_cpus": os.cpu_count(), "num_busy_processes": num_busy, "streams": int(NUM_STREAMS), "arms": rows}
    options.out.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
