"""Requests in the order of their arrival, whatever the order in which they come in."""

from bisect import bisect_left
from collections.abc import Iterator

from anaphora.scheduler.request import Request


class ArrivalQueue:
    """A sorted list. New requests come last, preempted ones go back to where they belong."""

    def __init__(self) -> None:
        self._requests: list[Request] = []
        self._arrivals: list[int] = []
        """Theirs, by which one is found."""

    def add(self, request: Request) -> None:
        place = bisect_left(self._arrivals, request.arrival)
        self._requests.insert(place, request)
        self._arrivals.insert(place, request.arrival)

    def remove(self, request: Request) -> None:
        place = bisect_left(self._arrivals, request.arrival)
        removed = self._requests.pop(place)
        assert removed is request, (removed, request)
        del self._arrivals[place]

    @property
    def first(self) -> Request:
        return self._requests[0]

    @property
    def last(self) -> Request:
        return self._requests[-1]

    def __getitem__(self, index: int) -> Request:
        return self._requests[index]

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[Request]:
        return iter(self._requests)
