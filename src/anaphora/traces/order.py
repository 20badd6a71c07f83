"""Requests into the order of arrival, and what had to be done for it."""

from collections.abc import Sequence
from itertools import pairwise

from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.request import TraceRequest


def by_arrival(requests: Sequence[TraceRequest], findings: Findings) -> tuple[TraceRequest, ...]:
    """Sorted by time, equal times as in the file. A file that runs backwards is turned round first.

    If any request has no time, the order of the file is kept.
    """
    times = [request.arrival_s for request in requests if request.arrival_s is not None]
    if len(times) < len(requests):
        timeless = [request.line for request in requests if request.arrival_s is None]
        findings.add(FindingKind.NO_TIME, timeless[0], count=len(timeless))
        return tuple(requests)
    steps = list(pairwise(times))
    num_backwards = sum(later < earlier for earlier, later in steps)
    if not num_backwards:
        return tuple(requests)
    if num_backwards > sum(later > earlier for earlier, later in steps):
        findings.add(FindingKind.REVERSED)
        requests = requests[::-1]
        num_backwards = sum(earlier < later for earlier, later in steps)
    if num_backwards:
        findings.add(FindingKind.UNSORTED, count=num_backwards)
    return tuple(sorted(requests, key=lambda request: request.arrival_s or 0.0))
