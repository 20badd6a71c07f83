"""What the engine's tests share: a model that remembers instead of computing, and a way to run requests to the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch

from anaphora.engine.config import EngineConfig
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.model_runner import ModelRunner
from anaphora.engine.plan import KVCapacity
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import LoadedEngine
from anaphora.kvcache.config import CacheConfig
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.scheduler import Scheduler
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId

VOCAB_SIZE = 97
GREEDY = SamplingParams(temperature=0.0, max_tokens=8, ignore_eos=True)


def next_token(context: Sequence[int]) -> int:
    """The memory model's continuation: it depends on every token before and on their order."""
    value = 7
    for token_id in context:
        value = (value * 31 + token_id + 1) % 1_000_003
    return value % VOCAB_SIZE


def continuation(prompt: Sequence[int], num_tokens: int) -> tuple[int, ...]:
    """What the memory model says after ``prompt``."""
    context = list(prompt)
    for _ in range(num_tokens):
        context.append(next_token(context))
    return tuple(context[len(prompt) :])


@dataclass
class MemoryModel:
    """Stores token ids where a model would store keys and values, and answers from what it reads back there.

    So a wrong slot, a wrong block table or a block shared by mistake shows in the tokens. ``before`` is called with
    each batch and may raise.
    """

    num_slots: int
    before: Callable[[ForwardBatch], None] = lambda batch: None
    batches: list[ForwardBatch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.slots = np.full(self.num_slots, -1)

    def forward(self, batch: ForwardBatch, kv: PagedKVCache) -> torch.Tensor:
        self.before(batch)
        self.batches.append(batch)
        self.slots[batch.slot_mapping.numpy()] = batch.token_ids.numpy()
        rows = []
        for row in batch.logits_rows.tolist():
            span = next(s for s in batch.spans if s.query_start <= row < s.query_start + s.query_len)
            position = span.kv_len - span.query_len + row - span.query_start
            at = np.arange(position + 1)
            table = np.array(span.block_table, dtype=np.int64)
            context = self.slots[table[at // kv.block_size] * kv.block_size + at % kv.block_size]
            rows.append(torch.nn.functional.one_hot(torch.tensor(next_token(context.tolist())), VOCAB_SIZE) * 10.0)
        return torch.stack(rows) if rows else torch.empty(0, VOCAB_SIZE)


def memory_core(
    *, num_blocks: int = 64, block_size: int = 4, eos_token_ids: tuple[int, ...] = (), seed: int = 0, **limits: Any
) -> tuple[EngineCore, MemoryModel]:
    """An engine core on a memory model; ``limits`` are the scheduler's, or the cache's ``enable_prefix_caching``."""
    caching = limits.pop("enable_prefix_caching", True)
    max_logits_rows = limits.pop("max_logits_rows", 256)
    limits = {"max_model_len": num_blocks * block_size} | limits
    scheduler = Scheduler(
        SchedulerConfig(**limits),
        CacheConfig(num_blocks=num_blocks, block_size=block_size, enable_prefix_caching=caching),
    )
    kv = PagedKVCache(
        num_layers=1, num_kv_heads=1, head_dim=1, num_blocks=num_blocks, block_size=block_size, dtype=torch.float32
    )
    model = MemoryModel(num_blocks * block_size)
    runner = ModelRunner(model, kv, max_logits_rows=max_logits_rows)
    core = EngineCore(scheduler, runner, vocab_size=VOCAB_SIZE, eos_token_ids=eos_token_ids, seed=seed)
    return core, model


def memory_engine(tokenizer: Tokenizer, **options: Any) -> tuple[Callable[..., LoadedEngine], MemoryModel]:
    """A loader for ``AsyncEngine.start`` that gives an engine on a memory model."""
    core, model = memory_core(**options)
    config = core.scheduler.config
    cache = core.scheduler.cache.config
    capacity = KVCapacity(cache.num_blocks, cache.num_slots, 0)
    plan = SimpleNamespace(
        max_model_len=config.max_model_len,
        kv_capacity=capacity,
        scheduler=config,
        is_on_gpu=False,
        device_bytes={},
    )
    loaded = LoadedEngine(core, tokenizer, cast(Any, plan), "memory", VOCAB_SIZE)
    return lambda config, checkpoint: loaded, model


def request(name: str, prompt: Sequence[int], params: SamplingParams = GREEDY, **fields: Any) -> GenerationRequest:
    return GenerationRequest(request_id=RequestId(name), prompt_token_ids=prompt, params=params, **fields)


def finish(core: EngineCore, requests: Sequence[GenerationRequest] = ()) -> dict[str, list[CoreOutput]]:
    """Add ``requests``, step until nothing is left to do, and return each request's outputs."""
    for item in requests:
        core.add(item)
    outputs: dict[str, list[CoreOutput]] = {}
    while (step := core.step()) is not None:
        for output in step:
            outputs.setdefault(output.request_id, []).append(output)
    return outputs


def tokens(outputs: Mapping[str, Sequence[CoreOutput]]) -> dict[str, tuple[int, ...]]:
    """The generated tokens of each request."""
    return {name: tuple(o.token_id for o in of_one if o.token_id is not None) for name, of_one in outputs.items()}


def config_for(folder: Path, **options: Any) -> EngineConfig:
    """A configuration with a small KV cache."""
    defaults: dict[str, Any] = {"device": "cpu", "kv_cache_memory_bytes": 2**21, "num_threads": 1}
    return EngineConfig(model=str(folder), **(defaults | options))
