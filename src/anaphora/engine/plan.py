"""What an engine's settings come to for one model: sizes, all known before anything is loaded."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig

DtypeName = Literal["float32", "bfloat16", "float16"]
ELEMENT_BYTES: dict[DtypeName, int] = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True, slots=True)
class KVCapacity:
    """Size of the KV cache."""

    num_blocks: int
    num_tokens: int
    num_bytes: int

    def __str__(self) -> str:
        return f"{self.num_blocks} blocks, {self.num_tokens} tokens, {self.num_bytes / 2**20:.0f} MiB"


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """What :class:`anaphora.engine.config.EngineConfig` comes to for one model."""

    dtype: DtypeName
    is_on_gpu: bool
    max_model_len: int
    """Prompt and output of one request together, in tokens."""
    kv_capacity: KVCapacity
    cache: CacheConfig
    scheduler: SchedulerConfig
    device_bytes: Mapping[str, int] = field(default_factory=dict)
    """What is held of a GPU's memory, by use, once the engine is loaded; empty on a CPU."""
