"""Times attention with many tile sizes on one GPU: the source of the tables in :mod:`anaphora.models.attention.tiles`.

    python -m benchmarks.gpu.tune OUT.jsonl

One JSON object a line: the case, the sizes, keys of a split (0: as the planner chooses), microseconds a layer.
"""

import itertools
import json
import multiprocessing
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.gpu.cases import CASES, Case, Heads
from benchmarks.gpu.steps import NUM_LAYERS, Problem, attention_of, layer_us, plan_with, relative_error

from anaphora.models.attention.tiles import HOPPER, TileConfig

HEADS = Heads()
PROCESSES = 14
SIZES = {
    16: [(128, 4, 3, 1), (128, 8, 3, 1), (64, 4, 3, 2), (64, 2, 3, 2)],
    64: [(64, 4, 3, 1), (64, 4, 3, 2), (64, 4, 4, 1), (64, 4, 2, 2)],
    128: [(64, 8, 3, 1), (64, 8, 4, 1)],
}
"""By rows of a tile: columns, warps, stages, programs on a multiprocessor."""
SPLITS = (0, 256, 512, 1024, 2048)


def configs() -> list[TileConfig]:
    """All that are tried, with the costs of the one that is used for such rows."""
    costs = {16: HOPPER["decode"], 64: HOPPER["extend"], 128: HOPPER["prefill"]}
    return [
        replace(costs[rows], rows=rows, columns=columns, num_warps=warps, num_stages=stages, programs_per_sm=programs)
        for rows, sizes in SIZES.items()
        for columns, warps, stages, programs in sizes
    ]


def compile_one(config: TileConfig) -> str | None:
    """Fill Triton's cache; what went wrong."""
    problem = Problem.make(Case("compile", ((1, 64), (40, 300))), HEADS, 1, 0)
    try:
        error = relative_error(attention_of(HEADS), plan_with(problem, config, share=False), problem)
    except Exception as failure:  # a size that does not fit is a finding, too
        return f"{type(failure).__name__}: {failure}"[:200]
    return None if error < 1e-2 else f"relative error {error}"


def tune(case: Case, usable: list[TileConfig]) -> list[dict[str, Any]]:
    """All sizes and splits on one case."""
    problem, attention = Problem.make(case, HEADS, NUM_LAYERS, 1), attention_of(HEADS)
    found = []
    for config, split, share in itertools.product(usable, SPLITS, {False, case.shared > 0}):
        if config.rows == 16 and max(query_len for query_len, _ in case.requests) > 2:
            continue
        plan = plan_with(problem, replace(config, fixed_split=split), share=share)
        sizes = (config.rows, config.columns, config.num_warps, config.num_stages, config.programs_per_sm)
        us = round(layer_us(attention, plan, problem, repeats=5), 2)
        found.append({"case": case.name, "shared": share, "sizes": sizes, "split": split, "us": us})
    return found


def main() -> None:
    out = Path(sys.argv[1])
    rows: list[dict[str, Any]] = []
    with multiprocessing.get_context("spawn").Pool(PROCESSES) as pool:
        failures = dict(zip(configs(), pool.map(compile_one, configs(), chunksize=1), strict=True))
    for config, reason in failures.items():
        if reason:
            print(config, reason)
    for case in CASES:
        found = tune(case, [config for config, reason in failures.items() if reason is None])
        rows += found
        out.write_text("".join(json.dumps(row) + "\n" for row in rows))
        print(case.name, *sorted(found, key=lambda row: float(row["us"]))[:3], sep="\n    ", flush=True)


if __name__ == "__main__":
    main()
