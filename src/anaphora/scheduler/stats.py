"""Counters of the scheduler. They only grow."""

from dataclasses import dataclass


@dataclass(slots=True)
class SchedulerStats:
    """Totals since the start."""

    num_steps: int = 0
    """Steps whose results were taken in."""
    num_failed_steps: int = 0
    num_computed_tokens: int = 0
    """Tokens computed in them, recomputed ones included."""
    num_preemptions: int = 0
    num_recomputed_tokens: int = 0
    """Tokens lost to preemption and computed again."""
