"""What ``deterministic`` gives and costs: logits of one position, bit by bit, and the time of steps, on and off.

    python -m benchmarks.gpu.batch_invariance MODEL OUT.json

The same position is computed with its whole prompt, after a cached prefix, alone, in chunks and among other requests.
"""

import json
import random
import statistics
import sys
from itertools import pairwise
from typing import Any

import torch
from benchmarks.gpu.passes import steps

from anaphora.engine.config import EngineConfig
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.gpu.flat_batch import flatten
from anaphora.engine.gpu.launcher import PassLauncher
from anaphora.engine.gpu.runner import GpuRunner
from anaphora.engine.input_batch import Chunk
from anaphora.engine.startup import load_engine
from anaphora.types import BlockId, RequestId

LENGTH, NUM_NEW, NUM_OTHERS, OTHER_LENGTH = 2000, 16, 20, 300
COLD_LENGTH, QUESTION, OUTPUT = 3961, 12, 128
VOCABULARY = 150_000
BLOCKS = 20_000


def main() -> None:
    """Measure with and without, and write what was found."""
    model, out = sys.argv[1:3]
    found = {}
    for deterministic in (False, True):
        config = EngineConfig(
            model=model,
            load_format="dummy",
            device="cuda",
            num_gpu_blocks_override=BLOCKS,
            deterministic=deterministic,
        )
        core = load_engine(config).core
        runner = core.runner
        assert isinstance(runner, GpuRunner)
        key = "deterministic" if deterministic else "default"
        found[key] = {"differences": differences(runner._launcher), "median_ms": times(core)}
        print(key, found[key], flush=True)
        del core, runner
        torch.cuda.empty_cache()
    with open(out, "w") as file:  # noqa: PTH123
        json.dump({"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, **found}, file, indent=1)


def differences(launcher: PassLauncher) -> dict[str, float]:
    """The largest difference of any logit of the last position from those of the whole prompt; 0.0: all bits agree."""
    rng = random.Random(1)
    text = [rng.randrange(VOCABULARY) for _ in range(LENGTH)]
    first, second = range(126), range(200, 326)

    def part(name: str, ids: list[int], start: int, end: int, table: range) -> Chunk:
        blocks = tuple(BlockId(block) for block in table)
        return Chunk(RequestId(name), ids[start:end], start, blocks, range(end - 1, end), samples=False)

    def logits(*chunks: Chunk, row: int = 0) -> torch.Tensor:
        with torch.inference_mode():
            launched = launcher.launch(flatten(chunks, EngineConfig().block_size))
            launched.token_ids()
            return launched.logits[row].float().cpu()

    whole = logits(part("a", text, 0, LENGTH, first))
    hit = part("a", text, LENGTH - NUM_NEW, LENGTH, first)
    got = {"again": logits(part("a", text, 0, LENGTH, first)), "hit": logits(hit)}
    got["one token"] = logits(part("a", text, LENGTH - 1, LENGTH, first))
    logits(part("b", text, 0, 1008, second))
    got["in chunks"] = logits(part("b", text, 1008, LENGTH, second))
    others = []
    for index in range(NUM_OTHERS):
        ids = [rng.randrange(VOCABULARY) for _ in range(OTHER_LENGTH)]
        table = range(1000 + 20 * index, 1020 + 20 * index)
        logits(part(f"o{index}", ids, 0, OTHER_LENGTH - 1, table))
        others.append(part(f"o{index}", ids, OTHER_LENGTH - 1, OTHER_LENGTH, table))
    got["among others"] = logits(others[0], hit, *others[1:], row=1)
    return {name: float((whole - other).abs().max()) for name, other in got.items()}


def times(core: EngineCore) -> dict[str, float]:
    """Medians in milliseconds, in the engine's own loop: a cold prompt, a hit, and a step of decoding."""
    rng = random.Random(2)

    def draw(length: int) -> list[int]:
        return [rng.randrange(VOCABULARY) for _ in range(length)]

    document = draw(COLD_LENGTH - QUESTION)
    colds = [steps(core, [draw(COLD_LENGTH)], 1)[-1] for _ in range(3)]
    steps(core, [document + draw(QUESTION)], 1)
    hits = [steps(core, [document + draw(QUESTION)], 1)[-1] for _ in range(10)]
    stamps = steps(core, [document + draw(QUESTION)], OUTPUT)
    decodes = [after - before for before, after in pairwise(stamps)]
    measured: dict[str, Any] = {"cold": colds, "hit": hits, "decode": decodes}
    return {name: round(1000 * statistics.median(values), 2) for name, values in measured.items()}


if __name__ == "__main__":
    main()
