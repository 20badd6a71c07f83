"""What became of requests in simulated time."""

from dataclasses import dataclass, field
from typing import NamedTuple

from anaphora.kvcache.ledger import Ledger
from anaphora.sim.predict import SimulatedRequest


class TimedRequest(NamedTuple):
    """What is asked, and when. ``output``: see :class:`SimulatedRequest`."""

    arrival_s: float
    asked: SimulatedRequest


@dataclass(slots=True)
class ServedRequest:
    """When what happened to one request, in seconds of the simulated clock. Refused requests have a ``refusal``."""

    arrival_s: float
    num_prompt_tokens: int
    refusal: str | None = None
    scheduled_s: float | None = None
    """When its first step began."""
    first_token_s: float | None = None
    """``None`` for good if no token was wanted."""
    finished_s: float | None = None
    num_output_tokens: int = 0
    num_recomputed_tokens: int = 0
    own_ms: float = 0.0
    """Duration of the steps that it had a part in, up to its first token."""
    ledger: Ledger | None = None

    @property
    def ttft_s(self) -> float | None:
        """Time to first token."""
        return None if self.first_token_s is None else self.first_token_s - self.arrival_s

    @property
    def queue_s(self) -> float | None:
        """From its arrival to the start of its first step."""
        return None if self.scheduled_s is None else self.scheduled_s - self.arrival_s

    @property
    def e2e_s(self) -> float | None:
        """From its arrival to its end."""
        return None if self.finished_s is None else self.finished_s - self.arrival_s

    @property
    def tpot_s(self) -> float | None:
        """Time per output token after the first; ``None`` if there is no second."""
        if self.first_token_s is None or self.finished_s is None or self.num_output_tokens < 2:
            return None
        return (self.finished_s - self.first_token_s) / (self.num_output_tokens - 1)


@dataclass(slots=True)
class Timeline:
    """What happened: requests in the order of their arrival, and totals."""

    requests: list[ServedRequest] = field(default_factory=list)
    num_steps: int = 0
    busy_s: float = 0.0
    """Duration of all steps."""
    end_s: float = 0.0
    """When the last request ended."""
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    num_computed_tokens: int = 0
    num_evicted_blocks: int = 0
    max_running: int = 0
    """Most requests of one step."""
