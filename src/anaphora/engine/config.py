"""The engine's settings as one frozen value, and what follows from them for a model: resolved once, never patched."""

from dataclasses import dataclass
from typing import Literal

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.errors import ConfigError
from anaphora.kvcache.config import CacheConfig
from anaphora.kvcache.eviction import DEFAULT_POLICY
from anaphora.scheduler.config import SchedulerConfig

DtypeName = Literal["float32", "bfloat16", "float16"]
ELEMENT_BYTES: dict[DtypeName, int] = {"float32": 4, "bfloat16": 2, "float16": 2}
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048


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
    """What :class:`EngineConfig` comes to for one model."""

    dtype: DtypeName
    max_model_len: int
    """Prompt and output of one request together, in tokens."""
    kv_capacity: KVCapacity
    cache: CacheConfig
    scheduler: SchedulerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """How to load and run a model. Names and meanings are vLLM's where there is one.

    Raises:
        ConfigError: a value is out of its range.
    """

    model: str | None = None
    """A folder, a ``.gguf`` file or a hub name; ``None`` is the default model."""
    load_format: Literal["auto", "dummy"] = "auto"
    """``dummy``: seeded random weights, no weight file is read."""
    dtype: Literal["auto"] | DtypeName = "auto"
    """In which weights, keys and values are held and computed; ``auto`` is float32 on a CPU."""
    device: Literal["cpu"] = "cpu"
    block_size: int = 16
    """Tokens per block."""
    kv_cache_memory_bytes: int = 2**30
    num_gpu_blocks_override: int | None = None
    """So many blocks, whatever ``kv_cache_memory_bytes`` says."""
    max_model_len: int | None = None
    """``None``: the model's context, or as much of it as the KV cache holds."""
    max_num_seqs: int = 256
    """Requests that run at the same time."""
    max_num_batched_tokens: int | None = None
    """Token budget of a step; ``None`` is 2048, or ``max_model_len`` without chunked prefill."""
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    eviction_policy: str = DEFAULT_POLICY
    """Which cached blocks go first when room is needed."""
    seed: int = 0
    """From which the randomness of requests without a seed follows."""
    num_threads: int | None = None
    """Threads of one matrix product; ``None``: as many as there are usable cores."""
    max_waiting_requests: int = 1024
    """Requests that may wait for admission; more are refused as an overload."""

    def __post_init__(self) -> None:
        if self.device != "cpu":
            raise ConfigError(f"device must be cpu, got {self.device!r}")
        if self.dtype not in ("auto", *ELEMENT_BYTES):
            raise ConfigError(f"dtype must be auto, {', '.join(ELEMENT_BYTES)}, got {self.dtype!r}")
        for name in _AT_LEAST_ONE:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be at least 1, got {value}")

    @property
    def max_requests(self) -> int:
        """Requests that the engine holds at once, running and waiting."""
        return self.max_num_seqs + self.max_waiting_requests

    def resolve(self, model: ModelConfig) -> EnginePlan:
        """Sizes for ``model``.

        Raises:
            ConfigError: the KV cache holds no block, or not one request of ``max_model_len``; or ``max_model_len`` is
                more than the model's context; or, without chunked prefill, the token budget is less than that.
        """
        dtype: DtypeName = "float32" if self.dtype == "auto" else self.dtype
        capacity = self._kv_capacity(model.kv_bytes_per_token(ELEMENT_BYTES[dtype]))
        max_model_len = self._max_model_len(model.max_position_embeddings, capacity)
        return EnginePlan(
            dtype=dtype,
            max_model_len=max_model_len,
            kv_capacity=capacity,
            cache=CacheConfig(
                num_blocks=capacity.num_blocks,
                block_size=self.block_size,
                enable_prefix_caching=self.enable_prefix_caching,
                eviction_policy=self.eviction_policy,
            ),
            scheduler=SchedulerConfig(
                max_num_seqs=self.max_num_seqs,
                max_num_batched_tokens=self._token_budget(max_model_len),
                max_model_len=max_model_len,
                enable_chunked_prefill=self.enable_chunked_prefill,
            ),
        )

    def _kv_capacity(self, bytes_per_token: int) -> KVCapacity:
        bytes_per_block = bytes_per_token * self.block_size
        num_blocks = self.num_gpu_blocks_override or self.kv_cache_memory_bytes // bytes_per_block
        if num_blocks < 1:
            raise ConfigError(
                f"kv_cache_memory_bytes is {self.kv_cache_memory_bytes}, but one block of {self.block_size} tokens "
                f"takes {bytes_per_block}: raise it to at least that"
            )
        return KVCapacity(num_blocks, num_blocks * self.block_size, num_blocks * bytes_per_block)

    def _max_model_len(self, context: int, capacity: KVCapacity) -> int:
        if self.max_model_len is None:
            return min(context, capacity.num_tokens)
        if self.max_model_len > context:
            raise ConfigError(
                f"max_model_len is {self.max_model_len}, but the model's context is {context} tokens: lower it to that"
            )
        if self.max_model_len > capacity.num_tokens:
            num_blocks = -(-self.max_model_len // self.block_size)
            name, enough = "kv_cache_memory_bytes", num_blocks * capacity.num_bytes // capacity.num_blocks
            if self.num_gpu_blocks_override is not None:
                name, enough = "num_gpu_blocks_override", num_blocks
            raise ConfigError(
                f"max_model_len is {self.max_model_len}, but the KV cache holds {capacity.num_tokens} tokens: lower it "
                f"to that, or raise {name} to {enough}"
            )
        return self.max_model_len

    def _token_budget(self, max_model_len: int) -> int:
        if self.enable_chunked_prefill:
            return self.max_num_batched_tokens or DEFAULT_MAX_NUM_BATCHED_TOKENS
        if self.max_num_batched_tokens is not None and self.max_num_batched_tokens < max_model_len:
            raise ConfigError(
                f"without chunked prefill a prompt of max_model_len ({max_model_len}) tokens must fit one step, but "
                f"max_num_batched_tokens is {self.max_num_batched_tokens}: raise it, or enable chunked prefill"
            )
        return self.max_num_batched_tokens or max(max_model_len, DEFAULT_MAX_NUM_BATCHED_TOKENS)


_AT_LEAST_ONE = (
    "block_size",
    "kv_cache_memory_bytes",
    "num_gpu_blocks_override",
    "max_model_len",
    "max_num_seqs",
    "max_num_batched_tokens",
    "num_threads",
    "max_waiting_requests",
)
