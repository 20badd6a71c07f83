"""Runs a step's schedule on the model: chunks to tensors, logits to tokens. Torch begins here."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.input_batch import Chunk, forward_batch, split_into_passes
from anaphora.engine.lack_of_memory import is_lack_of_memory
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS
from anaphora.engine.sampler import SampledToken, sample
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.sampling_state import SamplingState
from anaphora.errors import StepMemoryError
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache
from anaphora.scheduler.output import ScheduledRequest
from anaphora.types import RequestId


class Computation(Protocol):
    """A pass that was begun."""

    @property
    def may_be_followed(self) -> bool:
        """Whether another pass may be begun before this one's tokens are asked for."""
        ...

    def go_on(self, scheduled: Sequence[ScheduledRequest]) -> None:
        """If it may be followed: in the next step all of ``scheduled``, and nobody else, will compute a token each."""
        ...

    def tokens(self, wanted: Collection[RequestId]) -> dict[RequestId, SampledToken]:
        """Wait until it is computed: a token for each request that samples and is ``wanted``. To be noted by the
        requests' states."""
        ...


class Runner(Protocol):
    """What the engine core asks for a pass's tokens."""

    def begin(
        self,
        scheduled: Sequence[ScheduledRequest],
        active: Mapping[RequestId, ActiveRequest],
        *,
        are_alone: bool = False,
    ) -> Computation:
        """Begin to compute a pass, or compute it. Prompt log-probabilities go to their collectors.

        ``are_alone``: nobody else is here who could be in the next step.
        """
        ...


@dataclass(frozen=True, slots=True)
class Computed:
    """A :class:`Computation` that is over."""

    sampled: Mapping[RequestId, SampledToken]
    may_be_followed: bool = False

    def go_on(self, scheduled: Sequence[ScheduledRequest]) -> None:
        """See :class:`Computation`: nothing is gained."""

    def tokens(self, wanted: Collection[RequestId]) -> dict[RequestId, SampledToken]:
        """See :class:`Computation`."""
        return {name: token for name, token in self.sampled.items() if name in wanted}


class LanguageModel(Protocol):
    """What the runner asks of a model."""

    def forward(self, batch: ForwardBatch, kv: PagedKVCache) -> torch.Tensor:
        """Compute a batch; ``[R, vocab_size]`` float32 logits of ``batch.logits_rows``."""
        ...


class ModelRunner:
    """A model with its KV tensors, on a CPU."""

    def __init__(
        self,
        model: LanguageModel,
        kv: PagedKVCache,
        *,
        max_logits_rows: int = MAX_LOGITS_ROWS,
        placement: AbstractContextManager[object] | None = None,
    ) -> None:
        """``placement``: entered for each step; see :mod:`anaphora.engine.thread_placement`."""
        self._model = model
        self._kv = kv
        self._max_logits_rows = max_logits_rows
        self._placement = placement or nullcontext()

    @torch.inference_mode()
    def begin(
        self,
        scheduled: Sequence[ScheduledRequest],
        active: Mapping[RequestId, ActiveRequest],
        *,
        are_alone: bool = False,
    ) -> Computed:
        """See :class:`Runner`."""
        try:
            return Computed(self._run(scheduled, active))
        except Exception as error:
            if not is_lack_of_memory(error):
                raise
            raise StepMemoryError(
                "the machine has no memory left for this step: send the request again, or let the server be started "
                "with a lower kv_cache_memory_bytes or max_num_batched_tokens"
            ) from error

    def _run(
        self, scheduled: Sequence[ScheduledRequest], active: Mapping[RequestId, ActiveRequest]
    ) -> dict[RequestId, SampledToken]:
        chunks = [chunk_of(item, active[item.request.request_id]) for item in scheduled]
        sampled: dict[RequestId, SampledToken] = {}
        with self._placement:
            for chunks_of_pass in split_into_passes(chunks, self._max_logits_rows):
                logits = self._model.forward(forward_batch(chunks_of_pass, self._kv.block_size), self._kv)
                sampled |= share_out(logits, chunks_of_pass, active)
        return sampled

    @torch.inference_mode()
    def warm_up(self) -> None:
        """Compute one block of nothing in particular: a process's first pass takes many times as long as the next.

        Its keys and values go where nothing is cached yet. To be called before the first step.
        """
        size = self._kv.block_size
        chunk = Chunk(RequestId("warm-up"), [0] * size, 0, (0,), range(size - 1, size), samples=True)
        logits = self._model.forward(forward_batch([chunk], size), self._kv)
        sample(logits, [SamplingState(SamplingParams(), (), end_token_ids=(), key=(0, 0))])


def chunk_of(item: ScheduledRequest, active: ActiveRequest) -> Chunk:
    """A request's part of a step, with the rows of logits that are wanted of it."""
    wanted = range(item.end - item.samples, item.end)
    if active.prompt_logprobs is not None:
        prompt_rows = active.prompt_logprobs.wanted(item.start, item.end)
        if prompt_rows:
            wanted = range(prompt_rows.start, item.end if item.samples else prompt_rows.stop)
    return Chunk(
        request_id=item.request.request_id,
        token_ids=item.request.token_ids(item.start, item.end),
        start=item.start,
        block_table=item.block_table,
        logits_positions=wanted,
        samples=item.samples,
    )


def share_out(
    logits: torch.Tensor, chunks: Sequence[Chunk], active: Mapping[RequestId, ActiveRequest]
) -> dict[RequestId, SampledToken]:
    """One pass's rows: the last of a sampling chunk to the sampler, all others to the prompt's log-probabilities."""
    rows: list[int] = []
    request_ids: list[RequestId] = []
    first = 0
    for chunk in chunks:
        num_prompt_rows = len(chunk.logits_positions) - chunk.samples
        collector = active[chunk.request_id].prompt_logprobs
        if num_prompt_rows and collector is not None:
            collector.add(chunk.logits_positions.start, logits[first : first + num_prompt_rows])
        first += num_prompt_rows
        if chunk.samples:
            rows.append(first)
            request_ids.append(chunk.request_id)
            first += 1
    if not rows:
        return {}
    tokens = sample(logits if len(rows) == first else logits[rows], [active[name].sampling for name in request_ids])
    return dict(zip(request_ids, tokens, strict=True))
