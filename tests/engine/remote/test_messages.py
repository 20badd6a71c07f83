"""What goes over the channel comes back equal, and nothing else is taken for a message."""

from array import array
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_questions import DumpTree, ListNamespaces, ListPins, PinnedPrefixes, PinPrefix, Question
from anaphora.engine.outputs import PositionLogprobs, TokenLogprob
from anaphora.engine.remote.failures import RemoteError, error_of, failure_of
from anaphora.engine.remote.messages import (
    Add,
    Ask,
    Output,
    Outputs,
    decode_answer,
    decode_to_caller,
    decode_to_engine,
    encode,
)
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.stats import EngineStats
from anaphora.errors import EngineOverloadedError, EngineStepError, PinError, PromptTooLongError, RequestError
from anaphora.kvcache.ledger import Divergence, Ledger, Reason
from anaphora.kvcache.pins import Pin
from anaphora.kvcache.tree_dump import TreeNode
from anaphora.types import Namespace, RequestId

LEDGER = Ledger(20, {Reason.REUSED_DEVICE: 16, Reason.TAIL: 4}, Divergence(3, "r", (1, 2), (4,)), evicted_blocks_ago=2)
POSITION = PositionLogprobs(TokenLogprob(3, -0.5, 1), (TokenLogprob(3, -0.5, 1), TokenLogprob(9, -1.25, 2)))
NAMESPACE = Namespace("key:32:ab;salt:1:ü")


@given(prompt=st.lists(st.integers(0, 2**32 - 1), max_size=50), as_array=st.booleans())
def test_requests(prompt: list[int], as_array: bool) -> None:
    params = SamplingParams(
        max_tokens=7,
        temperature=0.25,
        seed=-5,
        stop=("\n", "ü"),
        stop_token_ids=(3,),
        logit_bias=((5, -1.5),),
        logprobs=2,
    )
    request = GenerationRequest(
        request_id=RequestId("cmpl-1"),
        prompt_token_ids=array("I", prompt) if as_array else prompt,
        params=params,
        namespace=NAMESPACE,
        lookup=False,
    )
    message = decode_to_engine(memoryview(encode(Add.of(request))))
    assert isinstance(message, Add)
    back = message.request()
    assert back.prompt_token_ids == array("I", prompt)
    assert (back.request_id, back.params, back.namespace, back.lookup) == ("cmpl-1", params, NAMESPACE, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"token_id": 5},
        {"token_id": 5, "finish_reason": "stop", "stop_reason": 7, "ledger": LEDGER, "scheduled_s": 1.5},
        {"finish_reason": "abort", "num_recomputed_tokens": 3},
        {"token_id": 1, "logprobs": POSITION, "prompt_logprobs": (None, POSITION)},
    ],
)
def test_outputs(fields: dict[str, Any]) -> None:
    output = CoreOutput(RequestId("r"), 2.5, **fields)
    message = decode_to_caller(memoryview(encode(Outputs([Output.of(output, with_ledger=True)]))))
    assert isinstance(message, Outputs)
    assert [item.core_output() for item in message.outputs] == [output]


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        (None, EngineStats(num_running=2, tokens_by_reason={Reason.NEW: 5}, num_finished={"stop": 1})),
        (PinPrefix("p", NAMESPACE, [1, 2], None), Pin("p", NAMESPACE, 1, 16, 0.5, None)),
        (ListPins(), PinnedPrefixes((Pin("p", NAMESPACE, 1, 16, 0.5, 9.5),), 1, 4, 8, 0.75)),
        (ListNamespaces(), [NAMESPACE]),
        (DumpTree(None, 5), [TreeNode(1, None, NAMESPACE, "cached", 2, 32, (1, 2), 0, 3, 7)]),
    ],
)
def test_questions_and_answers(question: Question | None, answer: object) -> None:
    message = decode_to_engine(memoryview(encode(Ask(3, question))))
    assert message == Ask(3, question)
    assert decode_answer(question, msgspec.Raw(encode(answer))) == answer


@pytest.mark.parametrize(
    "error",
    [
        PromptTooLongError("too long", param="prompt", code="context_length_exceeded"),
        RequestError("wrong", param="n"),
        EngineOverloadedError("9 wait"),
        EngineStepError("the model failed"),
        PinError("not cached"),
    ],
)
def test_errors_keep_their_kind(error: Exception) -> None:
    back = error_of(failure_of(error))
    assert (type(back), str(back)) == (type(error), str(error))
    assert (getattr(back, "param", None), getattr(back, "code", None)) == (
        getattr(error, "param", None),
        getattr(error, "code", None),
    )


def test_a_bug_is_one_on_the_other_side_too() -> None:
    assert isinstance(error_of(failure_of(ZeroDivisionError("oops"))), RemoteError)
    output = CoreOutput.failed(RequestId("r"), EngineStepError("failed"))
    assert isinstance(Output.of(output, with_ledger=False).core_output().error, EngineStepError)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", encode(5), encode(["Add"]), encode(["Add", "r", "no bytes"]), encode(["Exec", "x"])]
)
def test_what_is_no_message_is_refused(data: bytes) -> None:
    for decode in (decode_to_engine, decode_to_caller):
        with pytest.raises(msgspec.DecodeError):
            decode(memoryview(data))
