"""Which requests are here, and whether they wait or run."""

from typing import TYPE_CHECKING

from anaphora.scheduler.arrival_queue import ArrivalQueue
from anaphora.scheduler.request import Request

if TYPE_CHECKING:
    from anaphora.types import RequestId


class Roster:
    """Every request that is here, by its name and in one of two queues. Those in ``running`` hold blocks."""

    def __init__(self) -> None:
        self.by_id: dict[RequestId, Request] = {}
        self.waiting = ArrivalQueue()
        self.running = ArrivalQueue()
        self._num_arrived = 0

    def arrive(self, request: Request, block_size: int) -> None:
        """A new request waits behind all others."""
        request.arrive(self._num_arrived, block_size)
        self._num_arrived += 1
        self.by_id[request.request_id] = request
        self.waiting.add(request)

    def run(self, request: Request) -> None:
        """It waits no more."""
        self.waiting.remove(request)
        self.running.add(request)

    def wait(self, request: Request) -> None:
        """It runs no more, and goes back to its place among those that wait."""
        self.running.remove(request)
        self.waiting.add(request)

    def leave(self, request: Request, *, was_running: bool) -> None:
        """It is over."""
        (self.running if was_running else self.waiting).remove(request)
        del self.by_id[request.request_id]
