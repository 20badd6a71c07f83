"""An engine that follows a script: the fake edge for what a real engine does rarely."""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from anaphora.engine import (
    CacheOperations,
    EngineConfig,
    EngineStats,
    EngineUsage,
    GenerationRequest,
    KVCapacity,
    Ledger,
    Reason,
    RequestOutput,
    RequestTimes,
)
from anaphora.engine.questions import Questions
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.engine.harness import memory_core

Step = str | BaseException | None
"""Text to give out, an error to raise, or ``None`` to wait for ever."""


def _empty_cache() -> CacheOperations:
    """The real thing on a core of its own, asked without a thread."""
    core, _ = memory_core()
    questions = Questions(lambda command: command(core), lambda call, *args: call(*args))
    return CacheOperations(lambda question: questions.ask(question.answer))


@dataclass
class ScriptedBackend:
    """Every request gets the same ``script``; its last text ends with ``length``."""

    tokenizer: Tokenizer
    script: Sequence[Step] = ("Hello", " there")
    refusal: Exception | None = None
    """Raised by ``generate`` itself."""
    ending: str = "length"
    config: EngineConfig = field(default_factory=EngineConfig)
    max_model_len: int = 512
    kv_capacity: KVCapacity = field(default_factory=lambda: KVCapacity(8, 128, 8192))
    device_bytes: Mapping[str, int] = field(default_factory=dict)
    is_healthy: bool = True
    resets: bool = True
    cache: CacheOperations = field(default_factory=_empty_cache)
    requests: list[GenerationRequest] = field(default_factory=list)
    num_open: int = 0
    """Generators begun and not yet closed."""
    current: EngineStats = field(default_factory=EngineStats)

    def generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        return self._generate(request)

    async def _generate(self, request: GenerationRequest) -> AsyncGenerator[RequestOutput, None]:
        self.num_open += 1
        try:
            for index, step in enumerate(self.script):
                await asyncio.sleep(0)
                if step is None:
                    await asyncio.Event().wait()
                if isinstance(step, BaseException):
                    raise step
                yield _output(request, str(step), index, self.ending if index == len(self.script) - 1 else None)
        finally:
            self.num_open -= 1

    def stats(self) -> EngineStats:
        return self.current

    async def fetch_stats(self) -> EngineStats:
        return self.current

    async def reset_prefix_cache(self) -> bool:
        return self.resets


def _output(request: GenerationRequest, text: str, index: int, finish_reason: str | None) -> RequestOutput:
    num_prompt = len(request.prompt_token_ids)
    now = time.monotonic()
    times = RequestTimes(now, now, now)
    return RequestOutput(
        request_id=request.request_id,
        text=text,
        token_ids=(index + 3,),
        finish_reason=finish_reason,  # type: ignore[arg-type]
        usage=EngineUsage(num_prompt, 0, index + 1, 0, Ledger(num_prompt, {Reason.NEW: num_prompt})),
        times=times if finish_reason is None else replace(times, finished_s=now),
    )
