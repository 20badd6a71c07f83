"""What decode steps of a few requests take, with their rows padded to four and as they are, in turn.

    python -m benchmarks.cpu.few_rows MODEL_FOLDER [--threads 2] [--repeats 10] [--clock cpu] [--json FILE]

``--clock cpu`` counts one thread's processor time, for a machine that others use too.
"""

import argparse
import json
import random
import statistics
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from benchmarks.cpu.forward import BLOCK_SIZE, together
from benchmarks.cpu.procfs import describe_hardware

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.engine.thread_placement import placement_of_this_thread
from anaphora.models import linear
from anaphora.models.loader import load_model

CONTEXT = 304
NUM_REQUESTS = (1, 2, 3, 4, 5)
NUM_PASSES = 3


def main() -> None:
    """Measure, print, and keep if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    num_threads = 1 if options.clock == "cpu" else options.threads
    torch.set_num_threads(num_threads)
    clock = time.thread_time if options.clock == "cpu" else time.perf_counter
    placement: AbstractContextManager[object] = placement_of_this_thread(num_threads) or nullcontext()
    model = load_model(options.folder, read_model_config(options.folder))
    kv = model.new_kv_cache((1 + len(NUM_REQUESTS)) * CONTEXT // BLOCK_SIZE + 300, BLOCK_SIZE)
    token_ids = torch.randint(model.config.vocab_size, (CONTEXT + 1,), generator=torch.Generator().manual_seed(0))
    samples: dict[str, dict[int, list[float]]] = {name: {n: [] for n in NUM_REQUESTS} for name in ("padded", "plain")}
    least_rows = {"padded": linear.LEAST_ROWS, "plain": 1}
    chance = random.Random(0)
    together(model, kv, token_ids, 1, 0, CONTEXT)
    for _ in range(options.repeats):
        for number in NUM_REQUESTS:
            for name in chance.sample(list(samples), 2):
                linear.LEAST_ROWS = least_rows[name]
                for _ in range(NUM_PASSES):
                    before = clock()
                    with placement:
                        together(model, kv, token_ids, number, CONTEXT, CONTEXT + 1)
                    samples[name][number].append(1000 * (clock() - before))
    for number in NUM_REQUESTS:
        plain, padded = (samples[name][number] for name in ("plain", "padded"))
        print(
            f"{number} at once: {statistics.median(plain):.1f} (least {min(plain):.1f}) ms as they are, "
            f"{statistics.median(padded):.1f} ({min(padded):.1f}) padded"
        )
    if options.json:
        found = {"hardware": describe_hardware(), "threads": num_threads, "clock": options.clock, "samples_ms": samples}
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
