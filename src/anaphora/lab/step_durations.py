"""What the lab's records say of how long steps take: medians of TTFT and of times between tokens, and what was done.

The lab sends one request after another, so each has the server to itself: its TTFT is the prefill of what was not
cached, and a time between tokens is one step that decodes one token.
"""

from collections.abc import Sequence
from statistics import median

from anaphora.lab.timings import ttft_ms
from anaphora.lab.usage import read_usage
from anaphora.lab.witnesses import cached_tokens, prompt_tokens
from anaphora.sim.latency import StepWork, prefill_work
from anaphora.sim.latency_fit import Observation
from anaphora.traces.records import RequestRecord, Run

BLOCK_SIZE = 16
"""The usual one: prompts whose new tokens differ by less are alike."""


def observations_of(run: Run, *, token_budget: int) -> list[Observation]:
    """For each experiment, arm and length: one of TTFT for what was computed alike, one of the time between tokens.

    ``token_budget``: the tokens that the server computes in one step, at most.
    """
    groups: dict[tuple[str, str, bool, int], list[RequestRecord]] = {}
    for record in run.requests:
        if record.phase != "warmup" and record.error is None:
            key = (record.experiment, record.arm, record.phase == "first", record.group)
            groups.setdefault(key, []).append(record)
    observations: list[Observation] = []
    for (experiment, arm, is_first, length), records in groups.items():
        what = f"{experiment}, {arm}, {length} tokens" + (", first" if is_first else "")
        observations += _ttfts(what, records, token_budget)
        observations += _time_between_tokens(what, records)
    return observations


def _ttfts(what: str, records: Sequence[RequestRecord], token_budget: int) -> list[Observation]:
    """One for each number of cached tokens and, but for less than a block, of computed ones.

    Endings of several lengths may follow one prefix, and some of what was cached may be evicted: a median over both
    would be of no request. None if the server does not say how many tokens it took from its cache.
    """
    cells: dict[tuple[int, int], list[tuple[float, int, int]]] = {}
    for record in records:
        milliseconds, num_prompt, num_cached = ttft_ms(record), prompt_tokens(record), cached_tokens(record)
        if milliseconds is not None and num_prompt is not None and num_cached is not None:
            cell = (num_cached, (num_prompt - num_cached) // BLOCK_SIZE)
            cells.setdefault(cell, []).append((milliseconds, num_prompt, num_cached))
    observations = []
    for seen in cells.values():
        milliseconds, num_prompt, num_cached = (median(values) for values in zip(*seen, strict=True))
        work = prefill_work(round(num_prompt), round(num_cached), token_budget)
        told = f", {round(num_cached)} cached of {round(num_prompt)}" if len(cells) > 1 else ""
        observations.append(Observation(f"{what}{told}: TTFT", milliseconds, 1, work, len(seen)))
    return observations


def _time_between_tokens(what: str, records: Sequence[RequestRecord]) -> list[Observation]:
    seen: list[tuple[float, float]] = []
    for record in records:
        num_prompt, num_output = prompt_tokens(record), read_usage(record.usage).num_completion_tokens
        if num_prompt is None or num_output is None or record.first_token_ns is None or record.last_token_ns is None:
            continue
        num_gaps = num_output - 1 - (record.finish_reason == "stop")  # the token that ends an answer brings no text
        if record.streamed and num_gaps > 0:
            gap_ms = (record.last_token_ns - record.first_token_ns) / 1e6 / num_gaps
            seen.append((gap_ms, num_prompt + num_output / 2))
    if not seen:
        return []
    gap_ms, context = (median(values) for values in zip(*seen, strict=True))
    work = StepWork(1, 1, 1, context, context)
    return [Observation(f"{what}: time between tokens", gap_ms, 0, work, len(seen))]
