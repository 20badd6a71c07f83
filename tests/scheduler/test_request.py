from array import array
from collections.abc import Mapping

import pytest

from anaphora.errors import RequestError
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.scheduler.request import Request, RequestStatus
from anaphora.types import RequestId


def make(prompt: list[int], max_tokens: int = 2, min_tokens: int = 0) -> Request:
    return Request(request_id=RequestId("r"), prompt_token_ids=prompt, max_tokens=max_tokens, min_tokens=min_tokens)


@pytest.mark.parametrize(
    ("wrong", "message", "param"),
    [
        ({"prompt": []}, "the prompt is empty", "prompt"),
        ({"prompt": [1, -1]}, "token ids must be integers", "prompt"),
        ({"max_tokens": -1}, "max_tokens must be at least 0, got -1", "max_tokens"),
        ({"min_tokens": 3}, "min_tokens must be from 0 to max_tokens, got 3", "min_tokens"),
        ({"min_tokens": -1}, "min_tokens must be from 0 to max_tokens, got -1", "min_tokens"),
    ],
)
def test_a_wrong_request_is_refused_by_field(wrong: Mapping[str, object], message: str, param: str) -> None:
    with pytest.raises(RequestError, match=message) as caught:
        make(**({"prompt": [1]} | dict(wrong)))  # type: ignore[arg-type]
    assert caught.value.param == param


def test_the_caller_keeps_its_list_and_the_request_its_own() -> None:
    prompt = [1, 2, 3]
    request = make(prompt)
    prompt.append(4)
    assert list(request.prompt_token_ids) == [1, 2, 3]
    assert (request.num_tokens, request.num_prompt_tokens) == (3, 3)


def test_a_prompt_in_an_array_is_not_copied() -> None:
    prompt = array("I", [1, 2, 3])
    request = Request(request_id=RequestId("r"), prompt_token_ids=prompt, max_tokens=2)
    request.arrive(0, block_size=2)
    request.admit(0, Ledger(3, {Reason.NEW: 3}))
    request.advance(3)
    request.append(9)
    assert request.prompt_token_ids is prompt
    assert prompt == array("I", [1, 2, 3])


@pytest.mark.parametrize("start", range(6))
def test_known_tokens_of_prompt_and_output(start: int) -> None:
    request = make([1, 2, 3], max_tokens=9)
    request.arrive(0, block_size=2)
    request.admit(0, Ledger(3, {Reason.NEW: 3}))
    request.advance(3)
    request.append(4)
    request.decode([5, 6])
    for stop in range(start, 7):
        assert request.token_ids(start, stop) == array("I", [1, 2, 3, 4, 5, 6][start:stop])


def test_a_life() -> None:
    request = make([1, 2, 3])
    assert repr(request) == "Request(r, WAITING, 0/3 tokens)"
    request.arrive(7, block_size=2)
    ledger = Ledger(3, {Reason.NEW: 2, Reason.TAIL: 1})
    request.admit(0, ledger)
    assert request.advance(3) == 0
    request.append(9)
    assert (list(request.output_token_ids), list(request.token_ids(0, 4))) == ([9], [1, 2, 3, 9])
    assert (request.num_output_tokens, request.blocks.num_tokens, request.arrival) == (1, 4, 7)
    request.preempt()
    assert (request.status, request.num_computed_tokens) == (RequestStatus.PREEMPTED, 0)
    request.admit(2, Ledger(3, {Reason.NEW: 3}))
    assert request.ledger is ledger, "the first ledger stays"
    assert request.advance(2) == 1, "of the two tokens only the third was computed before"
    assert request.num_recomputed_tokens == 1
    request.finish("stop", 9)
    assert request.is_finished
    assert (request.finish_reason, request.stop_reason) == ("stop", 9)


def test_what_preemption_took_twice_is_computed_again_twice() -> None:
    request = make([1] * 10)
    request.arrive(0, block_size=2)
    ledger = Ledger(10, {Reason.NEW: 10})
    request.admit(0, ledger)
    assert request.advance(8) == 0
    request.preempt()
    request.admit(0, ledger)
    assert request.advance(4) == 4
    request.preempt()
    request.admit(2, ledger)
    assert request.advance(8) == 6
    assert request.num_recomputed_tokens == 10


def test_an_admission_can_be_revoked() -> None:
    request = make([1, 2, 3])
    request.arrive(0, block_size=2)
    request.admit(2, Ledger(3, {Reason.REUSED_DEVICE: 2, Reason.TAIL: 1}))
    request.revoke_admission(is_first=True)
    assert (request.status, request.num_computed_tokens, request.ledger) == (RequestStatus.WAITING, 0, None)
    request.admit(0, Ledger(3, {Reason.NEW: 2, Reason.TAIL: 1}))
    request.preempt()
    request.admit(0, Ledger(3, {Reason.NEW: 3}))
    request.revoke_admission(is_first=False)
    assert request.status is RequestStatus.PREEMPTED
    assert request.ledger == Ledger(3, {Reason.NEW: 2, Reason.TAIL: 1})


def test_transitions_out_of_order_are_broken_invariants() -> None:
    request = make([1, 2, 3])
    with pytest.raises(AssertionError):
        _ = request.arrival
    with pytest.raises(AssertionError):
        _ = request.blocks
    with pytest.raises(AssertionError):
        request.advance(1)
    request.arrive(0, 2)
    with pytest.raises(AssertionError):
        request.arrive(1, 2)
    request.admit(0, Ledger(3, {Reason.NEW: 3}))
    with pytest.raises(AssertionError):
        request.append(1)
    with pytest.raises(AssertionError):
        request.advance(4)
    request.finish("abort")
    with pytest.raises(AssertionError):
        request.finish("abort")
