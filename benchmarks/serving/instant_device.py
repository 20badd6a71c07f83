"""The GPU's runner over a device that answers at once: plans, packs and samples as ever, and computes nothing."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.gpu.buckets import TOKEN_BUCKETS
from anaphora.engine.gpu.launcher import PassLauncher
from anaphora.engine.gpu.runner import GpuRunner
from anaphora.engine.gpu.startup import captured_room, spare_blocks
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS
from anaphora.engine.plan import EnginePlan, KVCapacity
from anaphora.engine.startup import LoadedEngine
from anaphora.kvcache.config import CacheConfig
from anaphora.models.attention.cuda import CudaAttention
from anaphora.models.attention.tasks import TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.batch import SequenceSpan
from anaphora.models.kv_cache import PagedKVCache
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.scheduler import Scheduler

BLOCK_SIZE = 16
NUM_BLOCKS = 20_000
MAX_MODEL_LEN = 40_000
NUM_SMS = 132
"""Of an H200: by them attention's work is cut."""
CPU = torch.device("cpu")


class InstantAttention:
    """See :class:`anaphora.models.device.attention.DeviceAttention`: the plans of Qwen2.5-7B on an H200."""

    def __init__(self) -> None:
        self._planner = CudaAttention(
            num_heads=28, num_kv_heads=4, head_dim=128, block_size=BLOCK_SIZE, device=CPU, num_sms=NUM_SMS
        )

    def plan_spans(self, spans: Sequence[SequenceSpan]) -> TaskPlan:
        return self._planner.plan_spans(spans)

    def step_configs(self, fewest: int, most: int) -> Sequence[TileConfig]:
        return self._planner.step_configs(fewest, most)

    def workspace(self, num_parts: int) -> None:
        return None

    def run(self, *args: object) -> None:
        pass

    def warm_up(self, max_new_tokens: int, max_keys: int) -> None:
        pass


class InstantModel:
    """What :class:`PassLauncher` asks of a model. Logits are zeros that were there before, so token 0 is the likeliest
    of every row."""

    def __init__(self) -> None:
        self.device = CPU
        self.attention = InstantAttention()
        self.operators = SimpleNamespace(argmax=lambda logits, sampled: None, move_slots=lambda storage, pairs: None)
        self.config = SimpleNamespace(vocab_size=1)
        self.dtype = torch.float32
        self._logits = torch.zeros(MAX_LOGITS_ROWS, 1)

    def forward(self, batch: Any, kv: PagedKVCache, logits: torch.Tensor | None = None) -> torch.Tensor:
        return self._logits[: len(batch.logits_rows)]


def load_instant_device(
    vocab_size: int, *, target_prefill_tokens: int = 0, launcher_type: type[PassLauncher] = PassLauncher
) -> LoadedEngine:
    """An engine as a GPU's, with room for many long prompts and no tokenizer; every pass of up to 1024 tokens counts as
    captured."""
    plan = EnginePlan(
        dtype="bfloat16",
        is_on_gpu=True,
        max_model_len=MAX_MODEL_LEN,
        kv_capacity=KVCapacity(NUM_BLOCKS, NUM_BLOCKS * BLOCK_SIZE, 0),
        cache=CacheConfig(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE),
        scheduler=SchedulerConfig(
            max_num_seqs=256,
            max_num_batched_tokens=8192,
            target_prefill_tokens=target_prefill_tokens,
            max_model_len=MAX_MODEL_LEN,
        ),
    )
    model: Any = InstantModel()
    launcher = launcher_type(
        model,
        _one_number_each(spare_blocks(plan)),
        room=captured_room(plan, BLOCK_SIZE),
        buckets=TOKEN_BUCKETS,
        capture=lambda compute: compute,
        num_spare_blocks=spare_blocks(plan),
    )
    runner = GpuRunner(launcher, block_size=BLOCK_SIZE, max_model_len=MAX_MODEL_LEN)
    core = EngineCore(Scheduler(plan.scheduler, plan.cache), runner, vocab_size=vocab_size, eos_token_ids=())
    nobody: Any = None
    return LoadedEngine(core, nobody, plan, "instant", vocab_size)


def _one_number_each(num_spare_blocks: int) -> PagedKVCache:
    """Keys and values: to copy some is an operator's launch, as on a GPU."""
    return PagedKVCache(
        num_layers=1,
        num_kv_heads=1,
        head_dim=1,
        num_blocks=NUM_BLOCKS + num_spare_blocks,
        block_size=BLOCK_SIZE,
        dtype=torch.float32,
    )
