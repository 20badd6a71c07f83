"""How long a run will take, from what its warm-up took."""

from dataclasses import dataclass

from anaphora.lab.arms import Trial
from anaphora.lab.runner import Expected
from anaphora.lab.timings import e2e_ms, ttft_ms
from anaphora.lab.witnesses import prompt_tokens
from anaphora.traces.records import RequestRecord

_TYPICAL_HIT_MS = 100.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Milliseconds per prompt token that is computed, and per token that is generated."""

    prefill_ms: float
    decode_ms: float

    @classmethod
    def of(cls, warmup: RequestRecord) -> "Pace | None":
        """From a request that missed and generated some tokens; ``None`` if it does not tell."""
        tokens, ttft, e2e = prompt_tokens(warmup), ttft_ms(warmup), e2e_ms(warmup)
        if not tokens or ttft is None or e2e is None:
            return None
        return cls(ttft / tokens, (e2e - ttft) / max(1, warmup.max_tokens - 1))

    def cost_s(self, trial: Trial, expected: Expected) -> float:
        """Seconds that a trial should take. Long prompts cost somewhat more than in proportion: this is a lower
        guess."""
        tokens = expected.num_prompt_tokens or trial.group
        misses = trial.arm == "off" or trial.phase == "first"
        first = tokens * self.prefill_ms if misses else min(_TYPICAL_HIT_MS, tokens * self.prefill_ms)
        return (first + (trial.request.max_tokens - 1) * self.decode_ms) / 1000
