"""The engine's settings as one frozen value, and what follows from them for a model: resolved once, never patched."""

from dataclasses import dataclass
from typing import Literal, get_args

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.engine.gpu.captured import num_captured_steps
from anaphora.engine.memory_plan import DEFAULT_GPU_MEMORY_UTILIZATION, MemoryDemand, MemoryPlan, estimate_demand
from anaphora.engine.plan import ELEMENT_BYTES, DtypeName, EnginePlan, KVCapacity
from anaphora.errors import ConfigError
from anaphora.kvcache.config import DEFAULT_MAX_PINNED_SHARE, CacheConfig
from anaphora.kvcache.eviction import DEFAULT_POLICY
from anaphora.scheduler.config import DEFAULT_TARGET_PREFILL_TOKENS, SchedulerConfig

DeviceName = Literal["auto", "cpu", "cuda"]
DEFAULT_MAX_NUM_BATCHED_TOKENS = 2048
LARGE_GPU_BYTES = 70 * 2**30
"""From here on a GPU's step takes ``LARGE_TOKEN_BUDGET`` tokens by default: a long prompt then needs fewer passes over
the weights and over what it has computed before."""
LARGE_TOKEN_BUDGET = 8192
DEFAULT_KV_CACHE_BYTES = 2**30
"""On a CPU."""


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
    """In which weights, keys and values are held and computed; ``auto`` is float32 on a CPU and, on a GPU, as the
    weights are stored, or bfloat16 if that is float32."""
    device: DeviceName = "auto"
    """``auto``: a GPU if there is one."""
    block_size: int = 16
    """Tokens per block."""
    kv_cache_memory_bytes: int | None = None
    """``None``: 1 GiB on a CPU; on a GPU what ``gpu_memory_utilization`` leaves."""
    gpu_memory_utilization: float = DEFAULT_GPU_MEMORY_UTILIZATION
    """Share of a GPU's memory for weights, activations, graphs, keys and values together."""
    num_gpu_blocks_override: int | None = None
    """So many blocks, whatever the memory says."""
    max_model_len: int | None = None
    """``None``: the model's context, or as much of it as the KV cache holds."""
    max_num_seqs: int = 256
    """Requests that run at the same time."""
    max_num_batched_tokens: int | None = None
    """Token budget of a step; ``None`` is 2048, or ``max_model_len`` without chunked prefill."""
    target_prefill_tokens: int = DEFAULT_TARGET_PREFILL_TOKENS
    """See :class:`anaphora.scheduler.config.SchedulerConfig`."""
    enforce_eager: bool = False
    """On a GPU: compute every step operator by operator, without captured graphs."""
    deterministic: bool = False
    """On a GPU: what a request gets does not depend on what else is in its steps, to the bit."""
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    eviction_policy: str = DEFAULT_POLICY
    """Which cached blocks go first when room is needed."""
    max_pinned_share: float = DEFAULT_MAX_PINNED_SHARE
    """Of the blocks, so many may be pinned, 0 to 1."""
    seed: int = 0
    """From which the randomness of requests without a seed follows."""
    num_threads: int | None = None
    """Threads of one matrix product; ``None``: as many as there are usable cores."""
    max_waiting_requests: int = 1024
    """Requests that may wait for admission; more are refused as an overload."""

    def __post_init__(self) -> None:
        if self.device not in get_args(DeviceName):
            raise ConfigError(f"device must be {', '.join(get_args(DeviceName))}, got {self.device!r}")
        if not 0 < self.gpu_memory_utilization <= 1:
            raise ConfigError(
                f"gpu_memory_utilization must be above 0 and at most 1, got {self.gpu_memory_utilization}"
            )
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

    def resolve(self, model: ModelConfig, memory: MemoryPlan | None = None) -> EnginePlan:
        """Sizes for ``model`` on a CPU or, with ``memory``, on the GPU that it divides.

        Raises:
            ConfigError: the KV cache holds no block, or not one request of ``max_model_len``; or ``max_model_len`` is
                more than the model's context; or, without chunked prefill, the token budget is less than that.
        """
        dtype = self.dtype_on(model, is_gpu=memory is not None)
        capacity = self._kv_capacity(model.kv_bytes_per_token(ELEMENT_BYTES[dtype]), memory)
        max_model_len = self._max_model_len(model.max_position_embeddings, capacity)
        gpu_bytes = 0 if memory is None else memory.gpu_bytes
        return EnginePlan(
            dtype=dtype,
            is_on_gpu=memory is not None,
            max_model_len=max_model_len,
            kv_capacity=capacity,
            cache=CacheConfig(
                num_blocks=capacity.num_blocks,
                block_size=self.block_size,
                enable_prefix_caching=self.enable_prefix_caching,
                eviction_policy=self.eviction_policy,
                max_pinned_share=self.max_pinned_share,
            ),
            scheduler=SchedulerConfig(
                max_num_seqs=self.max_num_seqs,
                max_num_batched_tokens=self._token_budget(max_model_len, gpu_bytes),
                target_prefill_tokens=self.target_prefill_tokens,
                max_model_len=max_model_len,
                enable_chunked_prefill=self.enable_chunked_prefill,
            ),
        )

    def dtype_on(self, model: ModelConfig, *, is_gpu: bool) -> DtypeName:
        """In which ``model`` is computed there."""
        if self.dtype != "auto":
            return self.dtype
        if not is_gpu:
            return "float32"
        return "bfloat16" if model.dtype == "float32" else model.dtype

    def token_budget_on(self, model: ModelConfig, gpu_bytes: int) -> int:
        """Tokens of the largest step on a GPU of ``gpu_bytes``, before it is known what the KV cache holds."""
        return self._token_budget(self.max_model_len or model.max_position_embeddings, gpu_bytes)

    def plan_memory(self, model: ModelConfig, gpu_bytes: int, demand: MemoryDemand | None = None) -> MemoryPlan:
        """How the memory of a GPU is divided; ``demand`` is what was measured, ``None``: by arithmetic."""
        element_bytes = ELEMENT_BYTES[self.dtype_on(model, is_gpu=True)]
        budget = self.token_budget_on(model, gpu_bytes)
        return MemoryPlan(
            gpu_bytes=gpu_bytes,
            utilization=self.gpu_memory_utilization,
            demand=demand
            or estimate_demand(
                model,
                element_bytes,
                max_num_batched_tokens=budget,
                max_num_seqs=self.max_num_seqs,
                num_graphs=0 if self.enforce_eager else self._num_captured_steps(model, budget),
            ),
            kv_bytes_per_token=model.kv_bytes_per_token(element_bytes),
            block_size=self.block_size,
        )

    def _num_captured_steps(self, model: ModelConfig, budget: int) -> int:
        is_float32 = self.dtype_on(model, is_gpu=True) == "float32"
        return num_captured_steps(model, budget, batch_invariant=self.deterministic, is_float32=is_float32)

    def _kv_capacity(self, bytes_per_token: int, memory: MemoryPlan | None) -> KVCapacity:
        bytes_per_block = bytes_per_token * self.block_size
        if self.num_gpu_blocks_override is not None:
            num_blocks = self.num_gpu_blocks_override
        elif memory is not None and self.kv_cache_memory_bytes is None:
            memory.check(self.max_model_len)
            num_blocks = memory.num_blocks
        else:
            num_blocks = (self.kv_cache_memory_bytes or DEFAULT_KV_CACHE_BYTES) // bytes_per_block
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

    def _token_budget(self, max_model_len: int, gpu_bytes: int) -> int:
        default = LARGE_TOKEN_BUDGET if gpu_bytes >= LARGE_GPU_BYTES else DEFAULT_MAX_NUM_BATCHED_TOKENS
        if self.enable_chunked_prefill:
            return self.max_num_batched_tokens or default
        if self.max_num_batched_tokens is not None and self.max_num_batched_tokens < max_model_len:
            raise ConfigError(
                f"without chunked prefill a prompt of max_model_len ({max_model_len}) tokens must fit one step, but "
                f"max_num_batched_tokens is {self.max_num_batched_tokens}: raise it, or enable chunked prefill"
            )
        return self.max_num_batched_tokens or max(max_model_len, default)


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
