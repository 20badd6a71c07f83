"""What the server needs of an engine. ``EngineClient`` is one; the tests have a scripted one."""

from collections.abc import AsyncGenerator, Mapping
from typing import Protocol

from anaphora.engine import CacheOperations, EngineConfig, EngineStats, GenerationRequest, KVCapacity, RequestOutput
from anaphora.tokenizer.tokenizer import Tokenizer


class Backend(Protocol):
    """The engine as the server sees it."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def config(self) -> EngineConfig: ...

    @property
    def max_model_len(self) -> int:
        """Prompt and output of one request together, in tokens."""

    @property
    def kv_capacity(self) -> KVCapacity: ...

    @property
    def device_bytes(self) -> Mapping[str, int]:
        """What is held of a GPU's memory, by use; empty on a CPU."""

    @property
    def is_healthy(self) -> bool: ...

    @property
    def cache(self) -> CacheOperations:
        """What the operator asks of the prefix cache."""

    def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        """Outputs until one has a ``finish_reason``. Closing it early aborts the request and frees its blocks."""

    async def fetch_stats(self) -> EngineStats:
        """The picture after the last step; whoever has seen a request's last output finds it counted."""

    async def reset_prefix_cache(self) -> bool:
        """Forget all cached blocks; ``False`` while blocks are in use, and then nothing was reset."""
