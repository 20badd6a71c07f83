"""How much of everything a run measures."""

from dataclasses import dataclass

PHASES = ("prefixes", "burst", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How much is measured. ``lengths``: tokens of the shared prefixes; one cold request and ``hits_per_round`` hits
    per length, round and server. ``rest_limit_s``: how long to wait, before each request, for all servers to sleep.
    """

    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 3072)
    rounds: int = 5
    hits_per_round: int = 4
    burst_rounds: int = 3
    burst_size: int = 16
    burst_length: int = 2048
    burst_tokens: int = 16
    decode_rounds: int = 5
    decode_length: int = 512
    decode_tokens: int = 96
    starts: int = 3
    rest_limit_s: float = 3.0
    phases: tuple[str, ...] = PHASES


FULL = Plan()
QUICK = Plan(lengths=(1024, 2048, 3072), rounds=1, hits_per_round=5, burst_rounds=1, decode_rounds=2, starts=1)
