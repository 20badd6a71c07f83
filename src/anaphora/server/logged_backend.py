"""An engine whose requests are logged as they end. To the server it is the engine."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

from anaphora.engine import CacheOperations, EngineConfig, EngineStats, GenerationRequest, KVCapacity, RequestOutput
from anaphora.server.backend import Backend
from anaphora.server.traffic_log import TrafficLog
from anaphora.server.traffic_rows import Served
from anaphora.tokenizer.tokenizer import Tokenizer


class LoggedBackend:
    """A :class:`Backend` in front of another. Requests that never gave an output are not logged."""

    def __init__(self, backend: Backend, log: TrafficLog) -> None:
        self._backend = backend
        self._log = log

    @property
    def tokenizer(self) -> Tokenizer:
        return self._backend.tokenizer

    @property
    def config(self) -> EngineConfig:
        return self._backend.config

    @property
    def max_model_len(self) -> int:
        return self._backend.max_model_len

    @property
    def kv_capacity(self) -> KVCapacity:
        return self._backend.kv_capacity

    @property
    def device_bytes(self) -> Mapping[str, int]:
        return self._backend.device_bytes

    @property
    def is_healthy(self) -> bool:
        return self._backend.is_healthy

    @property
    def cache(self) -> CacheOperations:
        return self._backend.cache

    def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        return self._generate(request, self._backend.generate(request))

    async def fetch_stats(self) -> EngineStats:
        return await self._backend.fetch_stats()

    async def reset_prefix_cache(self) -> bool:
        was_reset = await self._backend.reset_prefix_cache()
        if was_reset:
            self._log.note_reset()
        return was_reset

    async def _generate(
        self, request: GenerationRequest, outputs: AsyncGenerator[RequestOutput, None]
    ) -> AsyncGenerator[RequestOutput, None]:
        token_ids: list[int] = []
        last: RequestOutput | None = None
        try:
            async with aclosing(outputs):
                async for output in outputs:
                    token_ids += output.token_ids
                    last = output
                    yield output
        finally:
            if last is not None:
                self._log.append(Served(request, token_ids, last))
