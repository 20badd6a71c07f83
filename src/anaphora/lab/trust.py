"""Whether a run's numbers can be trusted: checks that are made from its records, each with what was seen."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.arms import HEAD_TOKENS, Mechanism
from anaphora.lab.check import Check
from anaphora.lab.counter_chain import CounterChain
from anaphora.lab.drift import check_drift
from anaphora.lab.experiments.registry import EXPERIMENTS
from anaphora.lab.prediction import block_size_of
from anaphora.lab.statistics import median
from anaphora.lab.timings import ttft_ms
from anaphora.lab.usage import read_usage, server_ttft_ms
from anaphora.lab.witnesses import cached_by_source, gaps, prompt_tokens, shares
from anaphora.traces.records import RequestRecord, Run

_ENOUGH_FOR_95_PERCENT = 6
_BUSY_SHARE = 0.7
_FEW = 0.1
_LATE_MS = 10.0
_LATE_STAMP_MS = 1.0


def checks(run: Run) -> list[dict[str, Any]]:
    """All checks, in the order in which a doubting reader asks."""
    records = [record for record in run.requests if record.phase != "warmup"]
    good = [record for record in records if record.error is None]
    ask: Sequence[Callable[[], Check]] = (
        lambda: _complete(run, records),
        lambda: _off_missed(run, [r for r in good if r.arm == "off"]),
        lambda: _on_hit([r for r in good if r.arm == "on" and r.phase == "measured"]),
        lambda: _witnesses([r for r in good if r.arm == "on"], block_size_of(run.header.target["cache_settings"])),
        lambda: _counters(good),
        lambda: _equal_prompts(good),
        lambda: _equal_answers(good),
        lambda: _streamed(good),
        *((lambda: _server_times(good),) if any(_server_gap_ms(r) is not None for r in good) else ()),
        lambda: _warm_connections(records),
        lambda: _client_lag(good),
        lambda: _quiet_machine(run),
        lambda: _enough_samples(records),
    )
    answers = [question() for question in ask]
    answers.append(check_drift(records))
    answers += _of_experiments(records, int(run.header.settings["seed"]))
    return [asdict(answer) for answer in (*answers, _client_error(run))]


def _of_experiments(records: Sequence[RequestRecord], seed: int) -> list[Check]:
    """What single experiments are asked beside."""
    return [
        check
        for name, experiment in EXPERIMENTS.items()
        if (own := [record for record in records if record.experiment == name])
        for check in experiment.checks(own, seed)
    ]


def _complete(run: Run, records: Sequence[RequestRecord]) -> Check:
    planned, failed = run.header.num_planned_requests, sum(record.error is not None for record in records)
    seen = f"{len(records)} of {planned} planned requests were sent, {failed} of them failed"
    if run.resumed:
        seen += f"; cut short and resumed after {', '.join(str(one.after) for one in run.resumed)}"
    return Check("complete", "ok" if len(records) == planned and not failed else "warning", seen)


def _off_missed(run: Run, off: Sequence[RequestRecord]) -> Check:
    mechanism = Mechanism(run.header.settings["mechanism"])
    allowed = HEAD_TOKENS if mechanism is Mechanism.NONCE else 0
    cached = [count for record in off if (count := read_usage(record.usage).num_cached_tokens) is not None]
    leaked = sum(count > allowed for count in cached)
    if not off:
        return Check("off requests missed", "unknown", "no request was answered with caching off")
    how = f"off is {mechanism.off_means}"
    if len(cached) < len(off):
        return Check("off requests missed", "unknown", f"{how}; {len(off) - len(cached)} of {len(off)} do not tell")
    if leaked:
        return Check("off requests missed", "warning", f"{how}; yet {leaked} of {len(off)} took tokens from the cache")
    return Check(
        "off requests missed", "ok", f"{how}; all {len(off)} show at most {max(cached, default=0)} cached tokens"
    )


def _on_hit(on: Sequence[RequestRecord]) -> Check:
    """Those of which a hit is expected, or of which nothing is predicted."""
    on = [record for record in on if record.predicted_cached_tokens != 0]
    if not on:
        return Check("on requests hit", "unknown", "no request was expected to hit")
    cached = [read_usage(record.usage).num_cached_tokens for record in on]
    if None in cached:
        return Check("on requests hit", "unknown", f"{cached.count(None)} of {len(on)} do not tell their cached tokens")
    missed = cached.count(0)
    seen = f"{len(on) - missed} of {len(on)} took tokens from the cache"
    return Check("on requests hit", "warning" if missed else "ok", seen)


def _witnesses(on: Sequence[RequestRecord], block_size: int) -> Check:
    said = {name: share for name, share in shares(on).items() if share is not None}
    different = gaps(on, block_size=block_size)
    cached = {f"{share[0]:g} of {share[1]:g}" for share in said.values()}
    by_source = cached_by_source(on)
    parts = ", ".join(f"{name} {count:g}" for name, count in by_source.items())
    from_where = {"metrics": f" ({parts})" if len(by_source) > 1 else ""}
    seen = "; ".join(
        f"{name}: {share[0]:g} of {share[1]:g} tokens cached{from_where.get(name, '')}" for name, share in said.items()
    )
    if len(said) < 2:
        return Check("witnesses agree", "unknown", seen or "no witness speaks")
    if len(cached) == 1 and not different:
        silent = "" if len(said) == 3 else f" ({3 - len(said)} is silent)"
        return Check("witnesses agree", "ok", f"to the token{silent}: {seen}")
    named = "; ".join(f"{count} × {name}" for name, count in different.items())
    return Check("witnesses agree", "warning", f"{seen}. {named}".rstrip(". "))


def _counters(records: Sequence[RequestRecord]) -> Check:
    """The counters went forward, kept their names, and counted these requests alone."""
    name, chain = "counters", CounterChain.of(records)
    if not chain.num_readings:
        return Check(name, "unknown", "the target publishes no cache counters")
    if chain.num_resets:
        return Check(
            name,
            "warning",
            f"they went back in {chain.num_resets} requests: the server restarted, or several stand behind the address",
        )
    if len(chain.families) > 1:
        return Check(
            name, "warning", f"their names changed during the run: {', '.join(chain.families)}; none is summed"
        )
    family = chain.families[0]
    if chain.num_foreign_tokens is None:
        return Check(name, "unknown", f"{family} only went forward; whether other requests ran cannot be told from it")
    if chain.num_foreign_tokens:
        return Check(
            name,
            "warning",
            f"{family} counted {chain.num_foreign_tokens:,.0f} tokens more than were sent, in "
            f"{chain.num_requests_with_foreign} of {len(records)} requests: others use this server",
        )
    return Check(name, "ok", f"{family} only went forward and counted no token that was not sent by this run")


def _server_times(records: Sequence[RequestRecord]) -> Check:
    """The server's own first-token times beside the client's: what lies between is network, queue and HTTP."""
    gaps = [gap for record in records if (gap := _server_gap_ms(record)) is not None]
    typical = median(gaps) or 0.0
    seen = f"the client's TTFT is {typical:.1f} ms more than the server's own, in the median of {len(gaps)} requests"
    return Check("server's own times", "warning" if typical < 0 else "ok", seen)


def _server_gap_ms(record: RequestRecord) -> float | None:
    own, seen = server_ttft_ms(record.usage), ttft_ms(record)
    return None if own is None or seen is None else seen - own


def _equal_prompts(records: Sequence[RequestRecord]) -> Check:
    counts = [[prompt_tokens(record) for record in pair] for pair in _pairs(records)]
    known = [[count for count in pair if count is not None] for pair in counts]
    if any(len(pair) < 2 for pair in known):
        return Check("equal prompts", "unknown", "the target does not tell its prompt tokens")
    spread = max((max(pair) - min(pair) for pair in known), default=0)
    seen = f"the two prompts of a pair differ by at most {spread} tokens"
    return Check("equal prompts", "ok" if spread <= 1 else "warning", seen)


def _equal_answers(records: Sequence[RequestRecord]) -> Check:
    pairs = _pairs(records)
    different = sum(first.answer != second.answer for first, second in pairs)
    seen = f"{len(pairs) - different} of {len(pairs)} pairs have the same greedy text in both arms"
    return Check("equal answers", "warning" if different else "ok", seen)


def _pairs(records: Sequence[RequestRecord]) -> list[list[RequestRecord]]:
    """Records of both arms that belong together."""
    by_pair: dict[tuple[str, int, int], dict[str, RequestRecord]] = {}
    for record in records:
        by_pair.setdefault((record.experiment, record.group, record.index), {})[record.arm] = record
    return [list(pair.values()) for pair in by_pair.values() if len(pair) == 2]


def _streamed(records: Sequence[RequestRecord]) -> Check:
    not_streamed = sum(not record.streamed for record in records)
    at_once = sum(
        record.num_token_events == 1 and (read_usage(record.usage).num_completion_tokens or 1) > 4 for record in records
    )
    if not_streamed:
        return Check("streamed", "warning", f"{not_streamed} answers were not streamed: they have no TTFT")
    if at_once:
        return Check("streamed", "warning", f"{at_once} answers came in one piece: a proxy may hold streams back")
    return Check("streamed", "ok", "every answer came as a stream")


def _warm_connections(records: Sequence[RequestRecord]) -> Check:
    fresh = sum(not record.connection_reused for record in records)
    seen = f"{len(records) - fresh} of {len(records)} requests used a connection that had been used before"
    return Check("warm connections", "ok" if fresh <= _FEW * len(records) else "warning", seen)


def _client_lag(records: Sequence[RequestRecord]) -> Check:
    lags_ms = [record.worst_loop_lag_ns / 1e6 for record in records]
    late = sum(lag > _LATE_MS for lag in lags_ms)
    typical, worst = median(lags_ms) or 0.0, max(lags_ms, default=0.0)
    seen = f"the client's event loop was late by at most {worst:.1f} ms; by {typical:.1f} ms in the median request"
    return Check("client lag", "ok" if late <= _FEW * len(records) else "warning", seen)


def _quiet_machine(run: Run) -> Check:
    load, cpus = run.header.environment["load_average"][0], run.header.environment["num_cpus"]
    seen = f"load average {load:g} on {cpus} processors when the run began"
    return Check("quiet machine", "ok" if load < _BUSY_SHARE * cpus else "warning", seen)


def _client_error(run: Run) -> Check:
    """How late one stream's stamps were, on a built-in server that knows when it sent."""
    measured = run.header.environment.get("client_error")
    if measured is None:
        return Check("client error", "unknown", "the client was not calibrated against a server with known timings")
    error = measured["ttft_error_ms"]["1"]
    seen = (
        f"on a server with known timings the client stamped first tokens {error['median']:.2f} ms late (median), "
        f"{error['p99']:.2f} ms (99th percentile) of {error['num_samples']}"
    )
    return Check("client error", "ok" if error["median"] <= _LATE_STAMP_MS else "warning", seen)


def _enough_samples(records: Sequence[RequestRecord]) -> Check:
    sizes: dict[tuple[str, str, int], int] = {}
    for record in records:
        if record.phase == "measured" and record.error is None:
            key = (record.experiment, record.arm, record.group)
            sizes[key] = sizes.get(key, 0) + 1
    least = min(sizes.values(), default=0)
    if least >= _ENOUGH_FOR_95_PERCENT:
        return Check("enough samples", "ok", f"at least {least} a cell; intervals are at 95%")
    if least < 2:
        return Check("enough samples", "warning", f"as few as {least} a cell: there is no interval")
    level = (1 - 2.0 ** (1 - least)) * 100
    return Check("enough samples", "warning", f"as few as {least} a cell: such an interval is a range at {level:g}%")
