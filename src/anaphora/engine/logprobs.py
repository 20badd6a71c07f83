"""Log-probabilities: of the token taken, with its rank, and of the likeliest alternatives."""

from collections.abc import Sequence

import torch

from anaphora.engine.outputs import PositionLogprobs, TokenLogprob


def position_logprobs(
    logits: torch.Tensor, token_ids: Sequence[int], num_alternatives: Sequence[int]
) -> list[PositionLogprobs]:
    """For each row of ``logits`` ``[N, vocab_size]``: its token of ``token_ids``, and so many of the likeliest."""
    logprobs = torch.log_softmax(logits, dim=-1)
    taken = logprobs.gather(1, torch.tensor(token_ids, dtype=torch.int64)[:, None])
    ranks = (logprobs > taken).sum(dim=-1) + 1
    likeliest = logprobs.topk(min(max(num_alternatives), logprobs.shape[1]), dim=-1)
    rows = zip(
        token_ids,
        taken[:, 0].tolist(),
        ranks.tolist(),
        likeliest.indices.tolist(),
        likeliest.values.tolist(),
        num_alternatives,
        strict=True,
    )
    return [
        PositionLogprobs(
            token=TokenLogprob(token_id, logprob, rank),
            top=tuple(
                TokenLogprob(best_id, logprob_of_best, place)
                for place, (best_id, logprob_of_best) in enumerate(zip(best_ids[:num], best[:num], strict=True), 1)
            ),
        )
        for token_id, logprob, rank, best_ids, best, num in rows
    ]


class PromptLogprobs:
    """Collects the log-probabilities of a prompt's tokens while its chunks are computed."""

    def __init__(self, prompt_token_ids: Sequence[int], num_alternatives: int) -> None:
        self._token_ids = prompt_token_ids
        self._num_alternatives = num_alternatives
        self._entries: list[PositionLogprobs | None] = [None] * len(prompt_token_ids)
        self._num_missing = len(prompt_token_ids) - 1
        self._is_taken = False

    def wanted(self, start: int, stop: int) -> range:
        """Of the positions ``[start, stop)`` those whose logits are needed. Position ``p`` predicts token ``p + 1``."""
        if not self._num_missing:
            return range(start, start)
        return range(start, max(start, min(stop, len(self._token_ids) - 1)))

    def add(self, start: int, logits: torch.Tensor) -> None:
        """Take in ``logits`` ``[N, vocab_size]`` of the positions ``[start, start + N)``."""
        token_ids = self._token_ids[start + 1 : start + 1 + logits.shape[0]]
        found = position_logprobs(logits, token_ids, [self._num_alternatives] * logits.shape[0])
        for position, entry in enumerate(found, start + 1):
            self._num_missing -= self._entries[position] is None
            self._entries[position] = entry

    def take(self) -> tuple[PositionLogprobs | None, ...] | None:
        """All entries, once, as soon as none is missing; else ``None``."""
        if self._num_missing or self._is_taken:
            return None
        self._is_taken = True
        return tuple(self._entries)
