"""How the CUDA kernels cut their work: sizes that were measured, by what a step holds. No torch, no Triton."""

from dataclasses import dataclass, replace
from typing import Literal

Precision = Literal["tf32", "ieee"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TileConfig:
    """Sizes of one launch. A captured graph holds for one of these."""

    rows: int
    """Query rows of a tile: tokens times the query heads that share a KV head, at most."""
    columns: int
    """Keys met at once, a multiple of the block size."""
    num_warps: int
    num_stages: int
    """Tiles of keys in flight."""
    programs_per_sm: int
    task_keys: int
    """What starting a task costs, as keys that would be met in that time."""
    row_keys: float = 1.0
    """What storing and joining one row of a task costs, likewise."""
    few_rows: int = 0
    """Rows of the tile of a task that has no more. 0: every task has a tile of ``rows``."""
    fixed_split: int = 0
    """Keys of every split, at fixed positions. 0: as many splits as fill the GPU."""


HOPPER = {
    "decode": TileConfig(rows=16, columns=128, num_warps=4, num_stages=3, programs_per_sm=1, task_keys=300),
    "hit": TileConfig(rows=64, columns=64, num_warps=4, num_stages=3, programs_per_sm=1, task_keys=200),
    "extend": TileConfig(
        rows=64, few_rows=16, columns=64, num_warps=4, num_stages=3, programs_per_sm=2, task_keys=200, row_keys=2
    ),
    "prefill": TileConfig(rows=128, columns=64, num_warps=8, num_stages=3, programs_per_sm=1, task_keys=200),
}
"""Measured on an H200 (``benchmarks/gpu/tune.py``). ``decode``: tiles of a few queries; ``hit``: one request's few
tokens; ``extend``: several tokens of many requests, or queries of many over blocks that they share; ``prefill``: tiles
full of one request's tokens, and the same over so many keys that reading them twice would cost."""
AMPERE = {
    "decode": TileConfig(rows=16, columns=64, num_warps=4, num_stages=2, programs_per_sm=2, task_keys=200),
    "hit": TileConfig(rows=64, columns=64, num_warps=8, num_stages=2, programs_per_sm=1, task_keys=200),
    "extend": TileConfig(rows=64, columns=64, num_warps=8, num_stages=2, programs_per_sm=1, task_keys=200),
    "prefill": TileConfig(rows=64, columns=64, num_warps=8, num_stages=2, programs_per_sm=1, task_keys=200),
}
"""Within 99 KiB of shared memory (8.6 and 8.9; 8.0 has more). Not measured: chosen to fit."""
FIXED_SPLIT = 1024
"""Keys of a split when results must not depend on the batch: the most that fills a GPU at a few thousand tokens."""


def tile_configs(capability: tuple[int, int]) -> dict[str, TileConfig]:
    """The sizes for an architecture, by name."""
    return HOPPER if capability >= (9, 0) else AMPERE


MANY_KEYS = 8192
"""Of one request, from which on a tile of all its rows beats two tiles of half of them."""


@dataclass(frozen=True, slots=True)
class StepShape:
    """What the sizes are chosen by."""

    num_requests: int
    fewest_rows: int
    """Query rows of the request that has fewest."""
    most_rows: int
    """Of the request, or of the shared run, that has most."""
    most_keys: int
    """Of a request."""


def tile_config(
    configs: dict[str, TileConfig], shape: StepShape, *, batch_invariant: bool, is_float32: bool
) -> TileConfig:
    """The sizes for a step.

    With ``batch_invariant`` every step has the same: what a query gets depends on its own request and position alone,
    and not on how many queries its tile has.
    """
    config = configs["extend" if batch_invariant else _name(configs, shape)]
    if batch_invariant:
        config = replace(config, fixed_split=FIXED_SPLIT, few_rows=0)
    return replace(config, rows=min(config.rows, 64), columns=32, num_stages=2) if is_float32 else config


def step_configs(
    configs: dict[str, TileConfig], fewest: int, most: int, group: int, *, batch_invariant: bool, is_float32: bool
) -> tuple[TileConfig, ...]:
    """Every size that steps of ``fewest`` to ``most`` new tokens can have, as long as they hold no long prefill.

    ``group``: query rows of a token.
    """
    shapes = step_shapes(fewest, most, group)
    return tuple(
        dict.fromkeys(
            tile_config(configs, shape, batch_invariant=batch_invariant, is_float32=is_float32) for shape in shapes
        )
    )


def step_shapes(fewest: int, most: int, group: int) -> list[StepShape]:
    """Steps of ``fewest`` to ``most`` new tokens that among them need every size that such a step can.

    ``group``: query rows of a token. They are: a token of each request; all tokens of one request, over few keys and
    over many; and a token of each, with blocks that all of them share.
    """
    shapes = [StepShape(most, group, group, 1)]
    for num_tokens in dict.fromkeys((fewest, most)):
        rows = group * num_tokens
        shapes += [StepShape(1, rows, rows, keys) for keys in (1, MANY_KEYS + 1)]
    return shapes if most == 1 else [*shapes, StepShape(most, group, group * most, 1)]


def _name(configs: dict[str, TileConfig], shape: StepShape) -> str:
    if shape.most_rows <= configs["decode"].rows:
        return "decode"
    three_tiles = 3 * configs["hit"].rows  # two tiles of twice the rows would be as many, and emptier
    if shape.fewest_rows > configs["hit"].rows and (shape.most_rows > three_tiles or shape.most_keys > MANY_KEYS):
        return "prefill"
    return "hit" if shape.num_requests == 1 else "extend"
