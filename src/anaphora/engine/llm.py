"""Offline use: prompts in, finished texts out, in the calling thread."""

import functools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, cast

from anaphora.engine.config import EngineConfig
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import EngineUsage, FinishReason, PositionLogprobs, RequestOutput, RequestTimes
from anaphora.engine.request import GenerationRequest
from anaphora.engine.request_stream import join_outputs
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.engine.stats import EngineStats
from anaphora.errors import EngineDeadError, RequestError
from anaphora.kvcache.ledger import Ledger
from anaphora.types import Namespace, RequestId

Prompt = str | Sequence[int]
"""A text, or the token ids of one."""
Message = Mapping[str, Any]
"""As in OpenAI's chat API: ``role``, ``content``, …"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationResult:
    """A prompt's continuation, whole."""

    prompt_token_ids: tuple[int, ...]
    text: str
    token_ids: tuple[int, ...]
    logprobs: tuple[PositionLogprobs, ...] | None
    prompt_logprobs: tuple[PositionLogprobs | None, ...] | None
    finish_reason: FinishReason
    stop_reason: int | str | None
    usage: EngineUsage
    times: RequestTimes

    @property
    def ledger(self) -> Ledger:
        """Every prompt token by reason."""
        return self.usage.ledger

    @property
    def num_cached_tokens(self) -> int:
        """Prompt tokens served from the prefix cache."""
        return self.usage.num_cached_tokens


class LLM:
    """A model in this process. Its prefix cache outlives a call: later calls reuse what earlier ones computed.

    ``model`` is a folder, a ``.gguf`` file or a hub name, ``None`` the default model; options are those of
    :class:`EngineConfig`.

    Raises:
        CheckpointError: the model cannot be found, read or understood.
        ConfigError: an option cannot be used with it.
    """

    def __init__(self, model: str | None = None, **options: Any) -> None:
        loaded = load_engine(EngineConfig(model=model, **options))
        self._core: EngineCore | None = loaded.core
        self.tokenizer = loaded.tokenizer
        self.model_name = loaded.model_name
        self.max_model_len = loaded.plan.max_model_len
        self.kv_capacity = loaded.plan.kv_capacity
        self._num_requests = 0

    def generate(
        self,
        prompts: Prompt | Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        namespace: str = "",
    ) -> list[GenerationResult]:
        """Continue each prompt; all together, in order. A single prompt gives a list of one.

        ``params`` are for all prompts, or one for each.

        Raises:
            RequestError: a prompt can never run; then none has.
            EngineStepError: the model failed; no request is left behind.
        """
        token_ids = [self._encode(prompt) for prompt in _as_list(prompts)]
        each = list(params) if isinstance(params, Sequence) else [params or SamplingParams()] * len(token_ids)
        if len(each) != len(token_ids):
            raise RequestError(f"{len(token_ids)} prompts need as many params, got {len(each)}", param="params")
        requests = [
            GenerationRequest(
                request_id=RequestId(f"offline-{index}"),
                prompt_token_ids=ids,
                params=own_params,
                namespace=Namespace(namespace),
            )
            for index, (ids, own_params) in enumerate(zip(token_ids, each, strict=True), self._num_requests)
        ]
        self._num_requests += len(requests)
        return self._run(requests)

    def chat(
        self,
        messages: Sequence[Message] | Sequence[Sequence[Message]],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        namespace: str = "",
    ) -> list[GenerationResult]:
        """Answer one conversation, or each of several, written out by the model's chat template.

        Raises:
            ChatTemplateError: the template refused the messages.
            RequestError: as in :meth:`generate`.
        """
        is_single = bool(messages) and isinstance(messages[0], Mapping)
        conversations = cast("Sequence[Sequence[Message]]", [messages] if is_single else messages)
        encode = functools.partial(self.tokenizer.encode_chat, tools=tools, add_generation_prompt=add_generation_prompt)
        return self.generate([encode(conversation) for conversation in conversations], params, namespace=namespace)

    def stats(self) -> EngineStats:
        """What the engine has done so far."""
        return self._open_core().stats()

    def reset_prefix_cache(self) -> bool:
        """Forget every cached block."""
        return self._open_core().reset_prefix_cache()

    def close(self) -> None:
        """Let go of the model and the KV cache."""
        self._core = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _open_core(self) -> EngineCore:
        if self._core is None:
            raise EngineDeadError("this LLM was closed: make a new one")
        return self._core

    def _encode(self, prompt: Prompt) -> Sequence[int]:
        return self.tokenizer.encode(prompt) if isinstance(prompt, str) else tuple(prompt)

    def _run(self, requests: Sequence[GenerationRequest]) -> list[GenerationResult]:
        core = self._open_core()
        outputs: dict[RequestId, list[RequestOutput]] = {request.request_id: [] for request in requests}
        processors: dict[RequestId, OutputProcessor] = {}
        try:
            for request in requests:
                core.add(request)
                processors[request.request_id] = OutputProcessor(request, self.tokenizer, arrived_s=time.monotonic())
            while processors:
                for output in core.step() or ():
                    outputs[output.request_id].append(_process(core, processors, output))
        finally:
            for request_id in processors:
                core.abort(request_id)
        return [_result(request, join_outputs(outputs[request.request_id])) for request in requests]


def _process(core: EngineCore, processors: dict[RequestId, OutputProcessor], output: CoreOutput) -> RequestOutput:
    """One output as the caller sees it; the processor of a finished request is dropped.

    Raises:
        EngineStepError: the request's step failed.
    """
    if output.error is not None:
        raise output.error
    processed = processors[output.request_id].process(output)
    if processed.finish_reason is not None:
        del processors[output.request_id]
        if not output.is_last:
            core.abort(output.request_id)
    return processed


def _as_list(prompts: Prompt | Sequence[Prompt]) -> Sequence[Prompt]:
    """Prompts as a list, be it that there is only one."""
    if isinstance(prompts, str) or (prompts and isinstance(prompts[0], int)):
        return [cast("Prompt", prompts)]
    return cast("Sequence[Prompt]", prompts)


def _result(request: GenerationRequest, output: RequestOutput) -> GenerationResult:
    assert output.finish_reason is not None
    return GenerationResult(
        prompt_token_ids=tuple(request.prompt_token_ids),
        text=output.text,
        token_ids=output.token_ids,
        logprobs=output.logprobs,
        prompt_logprobs=output.prompt_logprobs,
        finish_reason=output.finish_reason,
        stop_reason=output.stop_reason,
        usage=output.usage,
        times=output.times,
    )
