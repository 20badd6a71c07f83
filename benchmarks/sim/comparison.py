"""Loads as they went beside what the simulator says of them, and the prompts, so that it can be asked again."""

import gzip
import json
from array import array
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.sim.drive import Measured
from benchmarks.sim.load import Load

from anaphora.sim.latency import LatencyModel
from anaphora.sim.prompt_blocks import cut_into_blocks
from anaphora.sim.sweep import RunPlan
from anaphora.sim.timed_sweep import ServerLimits, TimedPlan, TimedSweep
from anaphora.traces.request import TokenPrompt, Trace, TraceRequest
from anaphora.types import Namespace

PROMPTS = "prompts.json.gz"


def compare(
    load: Load,
    measured: Sequence[Measured],
    model: LatencyModel,
    *,
    num_blocks: int,
    token_budget: int,
    target_prefill_tokens: int,
) -> dict[str, Any]:
    """A load as it went, and as the simulator says it should have gone."""
    requests = tuple(
        TraceRequest(
            line=number,
            arrival_s=one.sent_s,
            prompt=TokenPrompt(array("I", one.token_ids)),
            num_output_tokens=one.num_output_tokens,
            namespace=Namespace(one.salt),
        )
        for number, one in enumerate(measured, 1)
    )
    trace = Trace(Path(load.name), "measured", None, len(requests), requests, ())
    limits = ServerLimits(max_num_batched_tokens=token_budget, target_prefill_tokens=target_prefill_tokens)
    sweep = TimedSweep(cut_into_blocks(trace, 16), model, limits)
    served = sweep.timeline(TimedPlan(RunPlan("lru", num_blocks), True)).requests
    predicted = [1e3 * (one.ttft_s or 0.0) for one in served]
    cached = [0 if one.ledger is None else one.ledger.num_cached_tokens for one in served]
    return {
        **asdict(load),
        "prompt_tokens": sum(len(one.token_ids) for one in measured),
        "measured": _summary([one.ttft_ms for one in measured], [one.num_cached_tokens for one in measured]),
        "predicted": _summary(predicted, cached),
        "requests_with_equal_cached_tokens": sum(
            one.num_cached_tokens == number for one, number in zip(measured, cached, strict=True)
        ),
        "requests": [
            {
                "sent_s": round(one.sent_s, 6),
                "prompt_tokens": len(one.token_ids),
                "output_tokens": one.num_output_tokens,
                "measured_ttft_ms": round(one.ttft_ms, 3),
                "measured_e2e_ms": round(one.e2e_ms, 3),
                "predicted_ttft_ms": round(milliseconds, 3),
                "measured_cached_tokens": one.num_cached_tokens,
                "predicted_cached_tokens": number,
            }
            for one, milliseconds, number in zip(measured, predicted, cached, strict=True)
        ],
    }


def _summary(ttfts_ms: list[float], cached: list[int]) -> dict[str, float]:
    p50, p90, p99 = np.quantile(ttfts_ms, (0.5, 0.9, 0.99))
    return {
        "mean_ms": float(np.mean(ttfts_ms)),
        "p50_ms": float(p50),
        "p90_ms": float(p90),
        "p99_ms": float(p99),
        "cached_tokens": sum(cached),
    }


def keep_prompts(folder: Path, loads: Sequence[Sequence[Measured]]) -> None:
    """The prompts' tokens and salts; the rest of what was measured stands in the results."""
    prompts = [[[one.salt, one.token_ids] for one in measured] for measured in loads]
    (folder / PROMPTS).write_bytes(gzip.compress(json.dumps(prompts).encode(), mtime=0))


def kept(folder: Path, loads: Sequence[dict[str, Any]]) -> list[list[Measured]]:
    """What was measured, from results and prompts."""
    prompts = json.loads(gzip.decompress((folder / PROMPTS).read_bytes()))
    return [
        [
            Measured(
                sent_s=one["sent_s"],
                ttft_ms=one["measured_ttft_ms"],
                e2e_ms=one["measured_e2e_ms"],
                num_output_tokens=one["output_tokens"],
                num_cached_tokens=one["measured_cached_tokens"],
                salt=salt,
                token_ids=token_ids,
            )
            for one, (salt, token_ids) in zip(load["requests"], of_load, strict=True)
        ]
        for load, of_load in zip(loads, prompts, strict=True)
    ]
