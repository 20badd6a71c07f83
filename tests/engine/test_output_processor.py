from typing import Any

import pytest

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import RequestOutput
from anaphora.engine.request_stream import join_outputs
from anaphora.engine.sampling_params import SamplingParams
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId
from tests.engine.harness import request

LEDGER = Ledger(3, {Reason.REUSED_DEVICE: 2, Reason.TAIL: 1})


def process(tokenizer: Tokenizer, text: str, finish_reason: Any = "length", **params: Any) -> list[RequestOutput]:
    """Outputs up to the first that is the last; each token of ``text`` is a step's, at second 11, 12, …"""
    token_ids = tokenizer.encode(text)
    processor = OutputProcessor(
        request("a", (1, 2, 3), SamplingParams(max_tokens=99, **params)), tokenizer, arrived_s=10.0
    )
    outputs = []
    for index, token_id in enumerate(token_ids, 1):
        core_output = CoreOutput(
            request_id=RequestId("a"),
            token_id=token_id,
            finish_reason=finish_reason if index == len(token_ids) else None,
            ledger=LEDGER,
            scheduled_s=10.5,
            stepped_s=10.0 + index,
        )
        outputs.append(processor.process(core_output))
        if outputs[-1].finish_reason is not None:
            break
    return outputs


def test_text_comes_token_by_token_with_the_account(tiny_tokenizer: Tokenizer) -> None:
    outputs = process(tiny_tokenizer, "The capital of France")
    assert "".join(o.text for o in outputs) == "The capital of France"
    assert all(o.text and len(o.token_ids) == 1 for o in outputs)
    last = outputs[-1]
    assert (last.finish_reason, last.stop_reason) == ("length", None)
    assert (last.usage.num_prompt_tokens, last.usage.num_cached_tokens) == (3, 2)
    assert last.usage.num_output_tokens == len(outputs)
    assert last.usage.ledger is LEDGER
    times = last.times
    assert (times.arrived_s, times.scheduled_s, times.first_token_s) == (10.0, 10.5, 11.0)
    assert times.finished_s == 10.0 + len(outputs)
    assert outputs[0].times.finished_s is None
    assert [o.token_times_s for o in outputs] == [(10.0 + index,) for index in range(1, len(outputs) + 1)]


def test_half_a_character_is_held_back_and_an_unfinished_one_comes_at_the_end(tiny_tokenizer: Tokenizer) -> None:
    whole = process(tiny_tokenizer, "né")
    assert [o.text for o in whole] == ["n", "", "é"]
    ids = tiny_tokenizer.encode("né")
    cut = OutputProcessor(request("a", (1,)), tiny_tokenizer, arrived_s=0.0)
    texts = [
        cut.process(CoreOutput(RequestId("a"), 11.0, token_id=ids[0])).text,
        cut.process(CoreOutput(RequestId("a"), 11.0, token_id=ids[1], finish_reason="length")).text,
    ]
    assert texts == ["n", "\ufffd"]


def test_a_stop_string_across_token_borders_ends_the_text(tiny_tokenizer: Tokenizer) -> None:
    outputs = process(tiny_tokenizer, "one two, three", stop=("o, thr",))
    assert "".join(o.text for o in outputs) == "one tw"
    assert (outputs[-1].finish_reason, outputs[-1].stop_reason) == ("stop", "o, thr")
    assert outputs[-1].usage.num_output_tokens == len(outputs) < len(tiny_tokenizer.encode("one two, three"))


def test_the_stop_string_stays_if_asked(tiny_tokenizer: Tokenizer) -> None:
    outputs = process(tiny_tokenizer, "one two, three", stop=(", ",), include_stop_str_in_output=True)
    assert "".join(o.text for o in outputs) == "one two, "


def test_a_stop_string_that_never_came_whole_is_given_back(tiny_tokenizer: Tokenizer) -> None:
    outputs = process(tiny_tokenizer, "one two", stop=("two three",))
    assert "".join(o.text for o in outputs) == "one two"
    assert outputs[-1].finish_reason == "length"


def test_stop_strings_in_the_first_min_tokens_do_not_stop(tiny_tokenizer: Tokenizer) -> None:
    ids = tiny_tokenizer.encode("a.b.c.d")
    assert len(ids) == 7
    outputs = process(tiny_tokenizer, "a.b.c.d", stop=(".",), min_tokens=3)
    assert "".join(o.text for o in outputs) == "a.b"
    assert outputs[-1].usage.num_output_tokens == 4


@pytest.mark.parametrize(("include", "text"), [(False, "a."), (True, "a.b")])
def test_a_stop_token_shows_only_if_asked(tiny_tokenizer: Tokenizer, include: bool, text: str) -> None:
    ids = tiny_tokenizer.encode("a.b")
    processor = OutputProcessor(
        request("a", (1,), SamplingParams(include_stop_str_in_output=include)), tiny_tokenizer, arrived_s=0.0
    )
    outputs = [processor.process(CoreOutput(RequestId("a"), 11.0, token_id=i)) for i in ids[:-1]]
    last = CoreOutput(RequestId("a"), 11.0, token_id=ids[-1], finish_reason="stop", stop_reason=ids[-1])
    outputs.append(processor.process(last))
    assert "".join(o.text for o in outputs) == text
    assert (outputs[-1].token_ids, outputs[-1].stop_reason) == ((ids[-1],), ids[-1])


@pytest.mark.parametrize("skip", [True, False])
def test_special_tokens_are_left_out_unless_wanted(tiny_tokenizer: Tokenizer, skip: bool) -> None:
    outputs = process(tiny_tokenizer, "a<|im_start|>b", skip_special_tokens=skip)
    assert "".join(o.text for o in outputs) == ("ab" if skip else "a<|im_start|>b")


def test_a_request_aborted_before_it_was_admitted_was_not_looked_up(tiny_tokenizer: Tokenizer) -> None:
    processor = OutputProcessor(request("a", (1, 2, 3)), tiny_tokenizer, arrived_s=1.0)
    output = processor.process(CoreOutput(RequestId("a"), 2.0, finish_reason="abort"))
    assert (output.finish_reason, output.token_ids, output.usage.num_output_tokens) == ("abort", (), 0)
    assert output.usage.ledger.counts == {Reason.BYPASSED: 3}
    assert (output.times.scheduled_s, output.times.finished_s) == (None, 2.0)


def test_joined_outputs_lose_nothing(tiny_tokenizer: Tokenizer) -> None:
    outputs = process(tiny_tokenizer, "The capital of France")
    joined = join_outputs(outputs)
    assert joined.text == "The capital of France"
    assert joined.token_ids == tuple(tiny_tokenizer.encode("The capital of France"))
    assert (joined.finish_reason, joined.usage, joined.times) == ("length", outputs[-1].usage, outputs[-1].times)
    assert joined.token_times_s == tuple(10.0 + index for index in range(1, len(outputs) + 1))
    assert joined.logprobs is None
    assert join_outputs(outputs[:1]) is outputs[0]
