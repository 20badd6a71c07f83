"""How far the client itself can be believed with as many streams as a process of a load run carried."""

from collections.abc import Sequence

from anaphora.lab.calibration.calibrate import LIMIT_MS, TAIL_PERCENT
from anaphora.lab.check import Check
from anaphora.lab.load.records import LoadRun


def client_error(run: LoadRun) -> Check:
    """How late the stamps of as many streams were, on a built-in server that knows when it sent."""
    found = run.header.environment["client_error"]
    if not found or not found["ttft_error_ms"]:
        return Check("client error", "unknown", "the client was not calibrated against a server with known timings")
    shown = _streams_carried(run, sorted(map(int, found["ttft_error_ms"])), max(1, int(found["streams_per_process"])))
    errors = {streams: found["ttft_error_ms"][str(streams)] for streams in shown}
    events = found.get("event_error_ms", {})
    late = events.get(str(shown[-1]), {}).get("read_late_percent", 0.0)
    seen = (
        "lateness of first-token stamps in one process, on a server with known timings, median and P99: "
        + ", ".join(
            f"{streams} streams: {error['median']:.2f} and {error.get('p99', error['median']):.2f} ms"
            for streams, error in errors.items()
        )
    )
    if late >= TAIL_PERCENT:
        seen += (
            f"; with {shown[-1]} streams {late:.1f}% of the events were read late: P99 of so many at once is not to be "
            "trusted, as the client's machine was busy"
        )
    is_true = max(error["median"] for error in errors.values()) <= LIMIT_MS and late < TAIL_PERCENT
    return Check("client error", "ok" if is_true else "warning", seen)


def _streams_carried(run: LoadRun, calibrated: Sequence[int], most: int) -> list[int]:
    """The numbers that were calibrated, up to the one that covers what a process carried; open loops have no such
    number, and may reach what one is asked at most."""
    closed = [-(-round(stage.level) // stage.num_processes) for stage in run.header.stages if stage.loop == "closed"]
    needed = max(closed) if len(closed) == len(run.header.stages) and closed else most
    covering = min((streams for streams in calibrated if streams >= needed), default=calibrated[-1])
    return [streams for streams in calibrated if streams <= min(covering, most)] or [calibrated[0]]
