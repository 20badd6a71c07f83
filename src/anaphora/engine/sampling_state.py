"""What the sampler knows of one request between steps: its settings, what it has generated, and its random numbers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch

from anaphora.engine.sampling_params import SamplingParams

_UINT64 = 2**64


class SamplingState:
    """Settings and history of one request.

    The random number of an output position is a function of the request's key and that position alone (Philox, a
    counter-based generator). So it depends neither on what else is in the batch, nor on chunks, nor on preemption.
    """

    def __init__(
        self,
        params: SamplingParams,
        prompt_token_ids: Sequence[int],
        *,
        end_token_ids: Iterable[int],
        key: tuple[int, int],
    ) -> None:
        """``end_token_ids`` are masked for ``min_tokens`` tokens. ``key`` names the stream of random numbers."""
        self.params = params
        self.num_output_tokens = 0
        self.output_counts: Counter[int] = Counter()
        self._key_parts = key
        self._end_token_ids = sorted(set(end_token_ids))  # tensors are made where needed: mostly never
        self._num_masked = params.min_tokens if self._end_token_ids else 0
        self._counts_matter = params.presence_penalty != 0.0 or params.frequency_penalty != 0.0
        self._repeatable = set(prompt_token_ids) if params.repetition_penalty != 1.0 else None
        self._is_plain = (
            params.logprobs is None
            and params.prompt_logprobs is None
            and not params.logit_bias
            and not self._counts_matter
            and self._repeatable is None
        )

    def observe(self, token_id: int) -> None:
        """Take in a generated token."""
        self.num_output_tokens += 1
        if self._counts_matter:
            self.output_counts[token_id] += 1
        if self._repeatable is not None:
            self._repeatable.add(token_id)

    @property
    def needs_only_logits(self) -> bool:
        """Whether the next token needs nothing but logits, settings and a random number: no penalties, no report."""
        return self._is_plain and self.num_output_tokens >= self._num_masked

    @cached_property
    def _key(self) -> npt.NDArray[np.uint64]:
        return np.array([part % _UINT64 for part in self._key_parts], dtype=np.uint64)

    def uniform(self, num_ahead: int = 0) -> float:
        """The random number in [0, 1) for the next output position, or for one ``num_ahead`` behind it."""
        bits = np.random.Philox(key=self._key, counter=self.num_output_tokens + num_ahead).random_raw()
        return float(int(bits) >> 11) * 2.0**-53

    @property
    def adjusts_logits(self) -> bool:
        """Whether :meth:`adjust` changes anything at the next position."""
        return bool(self._masks_end or self.params.logit_bias or self.output_counts or self._repeatable)

    def adjust(self, logits: torch.Tensor) -> None:
        """Apply bias, the mask of ``min_tokens`` and the penalties to this request's ``[vocab_size]`` logits, in place.

        Repetition divides positive logits and multiplies negative ones, for every token of prompt and output; then
        frequency subtracts per occurrence in the output, and presence once. The order is vLLM's.
        """
        params = self.params
        if params.logit_bias:
            ids, biases = zip(*params.logit_bias, strict=True)
            logits.index_add_(0, torch.tensor(ids), torch.tensor(biases, dtype=torch.float32))
        if self._masks_end:
            logits[self._end_token_ids] = -torch.inf
        if self._repeatable:
            repeated = torch.tensor(list(self._repeatable), dtype=torch.int64)
            seen = logits[repeated]
            logits[repeated] = torch.where(seen > 0, seen / params.repetition_penalty, seen * params.repetition_penalty)
        if self.output_counts:
            generated = torch.tensor(list(self.output_counts), dtype=torch.int64)
            counts = torch.tensor(list(self.output_counts.values()), dtype=torch.float32)
            logits[generated] -= counts * params.frequency_penalty + params.presence_penalty

    @property
    def _masks_end(self) -> bool:
        return self.num_output_tokens < self._num_masked
