from anaphora.scheduler.arrival_queue import ArrivalQueue
from anaphora.scheduler.request import Request
from anaphora.types import RequestId


def make(arrival: int) -> Request:
    request = Request(request_id=RequestId(f"r{arrival}"), prompt_token_ids=[1], max_tokens=1)
    request.arrive(arrival, 4)
    return request


def test_requests_stand_in_the_order_of_their_arrival() -> None:
    requests = [make(arrival) for arrival in range(5)]
    queue = ArrivalQueue()
    assert not queue
    for i in (3, 0, 4, 1):
        queue.add(requests[i])
    assert list(queue) == [requests[i] for i in (0, 1, 3, 4)]
    queue.remove(requests[3])
    queue.add(requests[2])
    assert (queue.first, queue.last, queue[1], len(queue)) == (requests[0], requests[4], requests[1], 4)
    assert list(queue) == [requests[i] for i in (0, 1, 2, 4)]
