"""Which small steps are captured: each bucket of tokens with each size of attention's tiles that its steps can have.

Without torch: ``anaphora plan`` counts them for a GPU that need not be there.
"""

from collections.abc import Callable, Sequence

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.engine.gpu.buckets import TOKEN_BUCKETS, buckets_up_to
from anaphora.models.attention.tiles import HOPPER, TileConfig, step_configs

StepConfigs = Callable[[int, int], Sequence[TileConfig]]
"""``configs(fewest, most)``: every size that steps of so many new tokens can have."""


def captured_steps(configs: StepConfigs, buckets: Sequence[int]) -> list[tuple[int, TileConfig]]:
    """Every bucket with every size that its steps can have, the largest buckets first."""
    fewest = [1, *(bucket + 1 for bucket in buckets)]
    return [
        (last, config)
        for first, last in reversed(list(zip(fewest, buckets, strict=False)))
        for config in configs(first, last)
    ]


def num_captured_steps(model: ModelConfig, max_num_tokens: int, *, batch_invariant: bool, is_float32: bool) -> int:
    """How many a start captures whose steps have up to ``max_num_tokens`` tokens.

    On Hopper, where sizes differ most; older GPUs, with fewer of them, capture fewer.
    """
    group = model.num_heads // model.num_kv_heads

    def configs(fewest: int, most: int) -> Sequence[TileConfig]:
        return step_configs(HOPPER, fewest, most, group, batch_invariant=batch_invariant, is_float32=is_float32)

    return len(captured_steps(configs, buckets_up_to(min(max_num_tokens, TOKEN_BUCKETS[-1]))))
