"""What a timeline comes to: distributions of the times that people wait, and how busy the server was."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anaphora.kvcache.ledger import Reason
from anaphora.sim.latency import MS_PER_S
from anaphora.sim.served import ServedRequest, Timeline

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def timing_of(timeline: Timeline) -> dict[str, Any]:
    """Everything of a run that is printed or written. Times that nobody had are ``None``."""
    served = [request for request in timeline.requests if request.refusal is None]
    begin_s = timeline.requests[0].arrival_s if timeline.requests else 0.0
    span_s = max(timeline.end_s - begin_s, timeline.busy_s)
    ledger: Counter[Reason] = Counter()
    for request in served:
        assert request.ledger is not None
        ledger.update(request.ledger.counts)
    num_prompt, num_output = (
        sum(getattr(request, f"num_{kind}_tokens") for request in served) for kind in ("prompt", "output")
    )
    num_cached = ledger[Reason.REUSED_DEVICE]
    return {
        "num_requests": len(served),
        "refused_requests": len(timeline.requests) - len(served),
        "ttft_ms": distribution([request.ttft_s for request in served]),
        "ttft_percentiles_ms": percentiles([request.ttft_s for request in served]),
        "queue_ms": distribution([request.queue_s for request in served]),
        "tpot_ms": distribution([request.tpot_s for request in served]),
        "e2e_ms": distribution([request.e2e_s for request in served]),
        "requests_per_s": _rate(len(served), span_s),
        "prompt_tokens_per_s": _rate(num_prompt, span_s),
        "output_tokens_per_s": _rate(num_output, span_s),
        "steps": timeline.num_steps,
        "busy_s": timeline.busy_s,
        "span_s": span_s,
        "utilisation": timeline.busy_s / span_s if span_s else None,
        "waiting_at_last_arrival": waiting_at_last_arrival(served),
        "max_running": timeline.max_running,
        "preemptions": timeline.num_preemptions,
        "recomputed_tokens": timeline.num_recomputed_tokens,
        "computed_tokens": timeline.num_computed_tokens,
        "evicted_blocks": timeline.num_evicted_blocks,
        "prompt_tokens": num_prompt,
        "output_tokens": num_output,
        "cached_tokens": num_cached,
        "token_hit_rate": num_cached / num_prompt if num_prompt else None,
        "ledger": {reason.value: ledger.get(reason, 0) for reason in Reason},
    }


def distribution(values_s: Sequence[float | None]) -> dict[str, float | None]:
    """Mean, quantiles and maximum in milliseconds; quantiles by linear interpolation."""
    known = np.array([value for value in values_s if value is not None]) * MS_PER_S
    if not len(known):
        return dict.fromkeys(("mean", *QUANTILES, "max"))
    quantiles = np.quantile(known, list(QUANTILES.values()))
    return {
        "mean": float(known.mean()),
        **dict(zip(QUANTILES, map(float, quantiles), strict=True)),
        "max": float(known.max()),
    }


def percentiles(values_s: Sequence[float | None]) -> list[float]:
    """From the least to the greatest, in 100 steps, in milliseconds; empty if nobody had any."""
    known = np.array([value for value in values_s if value is not None]) * MS_PER_S
    return [float(value) for value in np.percentile(known, range(101))] if len(known) else []


def waiting_at_last_arrival(served: Sequence[ServedRequest]) -> int:
    """Requests whose first step was still to come when the last one came: many, if more came than could be served."""
    if not served:
        return 0
    last_s = served[-1].arrival_s
    return sum(request.scheduled_s is not None and request.scheduled_s > last_s for request in served)


def _rate(count: int, span_s: float) -> float | None:
    return count / span_s if span_s else None
