"""Requests in the order of their arrival, whatever the order in which they come in."""

from bisect import bisect_left
from collections.abc import Iterator

from anaphora.scheduler.request import Request


def _arrival(request: Request) -> int:
    return request.arrival


class ArrivalQueue:
    """A sorted list. New requests come last, preempted ones go back to where they belong."""

    def __init__(self) -> None:
        self._requests: list[Request] = []

    def add(self, request: Request) -> None:
        self._requests.insert(self._position(request), request)

    def remove(self, request: Request) -> None:
        removed = self._requests.pop(self._position(request))
        assert removed is request, (removed, request)

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

    def _position(self, request: Request) -> int:
        return bisect_left(self._requests, request.arrival, key=_arrival)
