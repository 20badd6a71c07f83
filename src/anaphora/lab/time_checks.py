"""Checks of the times: that answers were streamed, and that the client stamped them when they came."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from anaphora.lab.calibration.calibrate import LIMIT_MS, TAIL_PERCENT
from anaphora.lab.check import Check
from anaphora.lab.drift import kind_of
from anaphora.lab.first_wave import num_cold
from anaphora.lab.statistics import median
from anaphora.lab.timings import ttft_ms
from anaphora.lab.usage import read_usage, server_ttft_ms
from anaphora.traces.records import RequestRecord

_BUSY_SHARE = 0.7
_FEW = 0.1
_LATE_MS = 10.0
_LATE_STAMP_MS = 1.0


def streamed(records: Sequence[RequestRecord]) -> Check:
    """Answers came piece by piece."""
    not_streamed = sum(not record.streamed for record in records)
    at_once = sum(
        record.num_token_events == 1 and (read_usage(record.usage).num_completion_tokens or 1) > 4 for record in records
    )
    if not_streamed:
        return Check("streamed", "warning", f"{not_streamed} answers were not streamed: they have no TTFT")
    if at_once:
        return Check("streamed", "warning", f"{at_once} answers came in one piece: a proxy may hold streams back")
    return Check("streamed", "ok", "every answer came as a stream")


def server_times(records: Sequence[RequestRecord]) -> Check | None:
    """The server's own first-token times beside the client's: what lies between is network, queue and HTTP.

    ``None`` if no answer tells the server's.
    """
    gaps = [gap for record in records if (gap := _server_gap_ms(record)) is not None]
    if not gaps:
        return None
    typical = median(gaps) or 0.0
    seen = f"the client's TTFT is {typical:.1f} ms more than the server's own, in the median of {len(gaps)} requests"
    return Check("server's own times", "warning" if typical < 0 else "ok", seen)


def first_wave(records: Sequence[RequestRecord]) -> Check | None:
    """Requests at the beginning that took several times as long as their like; ``None`` for none."""
    measured = sorted((r for r in records if r.phase == "measured"), key=lambda record: record.sent_ns)
    timed = [(record, time) for record in measured if (time := ttft_ms(record)) is not None]
    alike: dict[Hashable, list[float]] = {}
    for record, time in timed:
        alike.setdefault(kind_of(record), []).append(time)
    ratios = [time / (median(alike[kind_of(record)]) or time or 1.0) for record, time in timed]
    cold = num_cold(ratios)
    if not cold:
        return None
    seen = f"the first {cold} of {len(timed)} measured requests took at least {min(ratios[:cold]):.0f} times as long as"
    return Check("first wave", "warning", f"{seen} their like: a cold start, which is in all statistics")


def warm_connections(records: Sequence[RequestRecord]) -> Check:
    """Hardly any request waited for a handshake."""
    fresh = sum(not record.connection_reused for record in records)
    seen = f"{len(records) - fresh} of {len(records)} requests used a connection that had been used before"
    return Check("warm connections", "ok" if fresh <= _FEW * len(records) else "warning", seen)


def client_lag(records: Sequence[RequestRecord]) -> Check:
    """The client's event loop was there when answers came."""
    lags_ms = [record.worst_loop_lag_ns / 1e6 for record in records]
    late = sum(lag > _LATE_MS for lag in lags_ms)
    typical, worst = median(lags_ms) or 0.0, max(lags_ms, default=0.0)
    seen = f"the client's event loop was late by at most {worst:.1f} ms; by {typical:.1f} ms in the median request"
    return Check("client lag", "ok" if late <= _FEW * len(records) else "warning", seen)


def quiet_machine(environment: Mapping[str, Any]) -> Check:
    """Little else ran on the client's machine when the run began."""
    load, cpus = environment["load_average"][0], environment["num_cpus"]
    seen = f"load average {load:g} on {cpus} processors when the run began"
    return Check("quiet machine", "ok" if load < _BUSY_SHARE * cpus else "warning", seen)


def client_error(environment: Mapping[str, Any]) -> Check:
    """How late one stream's stamps were, on a built-in server that knows when it sent."""
    measured = environment.get("client_error")
    if measured is None:
        return Check("client error", "unknown", "the client was not calibrated against a server with known timings")
    error = measured["ttft_error_ms"]["1"]
    seen = (
        f"on a server with known timings the client stamped first tokens {error['median']:.2f} ms late (median), "
        f"{error['p99']:.2f} ms (99th percentile) of {error['num_samples']}"
    )
    late = measured.get("event_error_ms", {}).get("1", {}).get("read_late_percent", 0.0)
    if late >= TAIL_PERCENT:
        seen += f"; {late:.1f}% of the events were read late: do not trust this percentile, nor those of short times"
    is_true = error["median"] <= _LATE_STAMP_MS and error["p99"] <= LIMIT_MS and late < TAIL_PERCENT
    return Check("client error", "ok" if is_true else "warning", seen)


def _server_gap_ms(record: RequestRecord) -> float | None:
    own, seen = server_ttft_ms(record.usage), ttft_ms(record)
    return None if own is None or seen is None else seen - own
