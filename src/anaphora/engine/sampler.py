"""Logits to token ids. Greedy rows are one argmax; random rows are drawn one by one: none depends on its neighbours."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from anaphora.engine.logprobs import position_logprobs
from anaphora.engine.outputs import PositionLogprobs
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.sampling_state import SamplingState

NUM_FIRST_CANDIDATES = 256
"""As many of the likeliest tokens are sorted first for top-p; the whole vocabulary seldom has to be."""


class SampledToken(NamedTuple):
    """One sampled token, with its log-probability if asked for."""

    token_id: int
    logprobs: PositionLogprobs | None = None


def sample(logits: torch.Tensor, states: Sequence[SamplingState]) -> list[SampledToken]:
    """Choose the next token of each request. To be noted by its state (``observe``) once it counts.

    ``logits`` ``[R, vocab_size]`` float32, one row per state; rows with penalties, bias or masks are changed in place.
    Log-probabilities are taken after that and before temperature.
    """
    for row, state in zip(logits, states, strict=True):
        if state.adjusts_logits:
            state.adjust(row)
    token_ids: list[int] = logits.argmax(dim=-1).tolist()
    for index, state in enumerate(states):
        if not state.params.is_greedy:
            token_ids[index] = draw(logits[index], state.params, state.uniform())
    logprobs = _logprobs(logits, token_ids, states)
    return [SampledToken(token_id, logprobs.get(index)) for index, token_id in enumerate(token_ids)]


def draw(logits: torch.Tensor, params: SamplingParams, uniform: float) -> int:
    """The token at the point ``uniform`` in [0, 1) of the distribution that ``params`` make of ``[vocab_size]`` logits.

    Temperature, then min-p, then top-k, then top-p of what top-k left. The distribution is walked in the order of token
    ids: a near-tie that rounding turns round moves no border but that of a cut.
    """
    weights = (logits - logits.max()).div_(params.temperature).exp_()  # the likeliest has weight 1
    if params.min_p:
        weights[weights < params.min_p] = 0.0
    if params.top_k > 0 or params.top_p < 1.0:
        ids, kept = _cut(weights, params)
        return int(ids[_point(kept, uniform)])
    return _point(weights.numpy(), uniform)


def _cut(weights: torch.Tensor, params: SamplingParams) -> tuple[np.ndarray, np.ndarray]:
    """Ids, ascending, and weights of the tokens that top-k and top-p leave."""
    vocab_size = weights.shape[0]
    limit = min(params.top_k, vocab_size) if params.top_k > 0 else vocab_size
    total = float(weights.sum(dtype=torch.float64)) if params.top_k <= 0 else None
    num = limit if total is None else min(limit, NUM_FIRST_CANDIDATES)
    while True:
        best = weights.topk(num)
        sums = best.values.numpy().cumsum(dtype=np.float64)
        wanted = params.top_p * (sums[-1] if total is None else total)
        if num == limit or sums[-1] >= wanted:
            break
        num = min(limit, 8 * num)
    num_kept = min(int(np.searchsorted(sums, wanted)) + 1, num)
    ids = best.indices.numpy()[:num_kept]
    order = ids.argsort()
    return ids[order], best.values.numpy()[:num_kept][order]


def _point(weights: np.ndarray, uniform: float) -> int:
    """Index at which the running sum of ``weights`` first exceeds ``uniform`` of the whole."""
    sums = weights.cumsum(dtype=np.float64)
    assert np.isfinite(sums[-1]), "the model's logits are not numbers"
    # the product may round up to the whole itself, which no sum exceeds
    return int(np.searchsorted(sums, min(uniform * sums[-1], np.nextafter(sums[-1], 0.0)), side="right"))


def _logprobs(
    logits: torch.Tensor, token_ids: Sequence[int], states: Sequence[SamplingState]
) -> dict[int, PositionLogprobs]:
    """By row, for the rows that asked."""
    wanted = {row: state.params.logprobs for row, state in enumerate(states) if state.params.logprobs is not None}
    if not wanted:
        return {}
    rows = list(wanted)
    found = position_logprobs(logits[rows], [token_ids[row] for row in rows], list(wanted.values()))
    return dict(zip(rows, found, strict=True))
