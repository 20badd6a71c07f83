"""``transformers`` in float32 as the judge of greedy tokens and log-probabilities."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

NEAR_TIE = 1e-4
"""Two top logits nearer than this may change places with the shape of a matrix product."""


@dataclass(slots=True)
class Comparison:
    """Counts of compared tokens. A near tie is not the judge's first choice, but within :data:`NEAR_TIE` of it."""

    num_tokens: int = 0
    num_near_ties: int = 0
    num_divergences: int = 0

    def add(self, other: "Comparison") -> None:
        self.num_tokens += other.num_tokens
        self.num_near_ties += other.num_near_ties
        self.num_divergences += other.num_divergences

    def __str__(self) -> str:
        return f"{self.num_tokens} tokens, {self.num_near_ties} near ties, {self.num_divergences} divergences"


class Oracle:
    """One model folder, loaded by ``transformers``."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM

        model: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        self._model = model.eval()

    @torch.inference_mode()
    def logits(self, token_ids: Sequence[int]) -> torch.Tensor:
        """``[num_tokens, vocab_size]``: after each token, given all before it."""
        logits: torch.Tensor = self._model(torch.tensor([list(token_ids)]), use_cache=False).logits[0]
        return logits.float()

    def compare(self, prompt: Sequence[int], generated: Sequence[int]) -> Comparison:
        """Judge each generated token given the prompt and the generated tokens before it.

        If each is the judge's first choice, then by induction greedy generation of the judge gives the same text.
        """
        logits = self.logits([*prompt, *generated])[len(prompt) - 1 : -1]
        gaps = logits.max(dim=-1).values - logits.gather(1, torch.tensor(generated)[:, None])[:, 0]
        return Comparison(
            num_tokens=len(generated),
            num_near_ties=int(((gaps > 0) & (gaps < NEAR_TIE)).sum()),
            num_divergences=int((gaps >= NEAR_TIE).sum()),
        )
