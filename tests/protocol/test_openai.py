"""Request schemas: what is taken and how, and one sentence with the field's name for what is not."""

import codecs
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import RequestError
from anaphora.protocol.openai import (
    MAX_DETOKENIZED,
    MAX_MESSAGES,
    ChatCompletionRequest,
    CompletionRequest,
    DetokenizeRequest,
    TokenizeRequest,
)
from anaphora.protocol.parsing import parse

USER = {"role": "user", "content": "hi"}


def chat(**fields: Any) -> ChatCompletionRequest:
    request = parse(ChatCompletionRequest, json.dumps({"messages": [USER], **fields}).encode())
    request.check()
    return request


def completion(**fields: Any) -> CompletionRequest:
    request = parse(CompletionRequest, json.dumps({"prompt": "hi", **fields}).encode())
    request.check()
    return request


def message(**fields: Any) -> dict[str, Any]:
    return chat(messages=[fields]).messages[0].for_template()


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"messages": None}, "messages must be a valid array"),
        ({"messages": []}, "messages must have at least 1 item"),
        ({"messages": [{"content": "x"}]}, "messages[0].role is required"),
        ({"messages": [USER, {"role": "wizard"}]}, "messages[1].role must be 'system', 'developer', 'user',"),
        (
            {"messages": [{"role": "user", "content": 5}]},
            "messages[0].content must be a string or a list of text parts",
        ),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "messages[0].content may have parts of type text only"),
        ({"messages": [{"role": "system", "content": None}]}, "messages[0] must have content, as its role is system"),
        ({"messages": [{"role": "assistant", "tool_calls": 1}]}, "messages[0].tool_calls must be a list of objects"),
        ({"n": 0}, "n must be greater than or equal to 1"),
        ({"max_tokens": 0}, "max_tokens must be greater than or equal to 1"),
        ({"max_completion_tokens": -1}, "max_completion_tokens must be greater than or equal to 1"),
        ({"temperature": "0"}, "temperature must be a valid number"),
        ({"logprobs": 1}, "logprobs must be a valid boolean"),
        ({"top_logprobs": 21, "logprobs": True}, "top_logprobs must be less than or equal to 20"),
        ({"cache_salt": ""}, "cache_salt must have at least 1 character"),
        ({"cache_salt": 5}, "cache_salt must be a valid string"),
        ({"stop": ["a"] * 65}, "stop must have at most 64 strings, got 65"),
        ({"stop_token_ids": [1] * 1025}, "stop_token_ids must have at most 1024 items, got 1025"),
        ({"logit_bias": [1]}, "logit_bias must map token ids to numbers"),
        ({"logit_bias": {"1": True}}, "logit_bias must map token ids to numbers"),
        ({"logit_bias": {str(i): 0 for i in range(1025)}}, "logit_bias must have at most 1024 tokens, got 1025"),
        (
            {"stream_options": {"include_usage": 1}, "stream": True},
            "stream_options.include_usage must be a valid boolean",
        ),
        ({"response_format": {"type": "json_object"}}, "only plain text is produced"),
        ({"tool_choice": {"type": "function"}}, "a call cannot be forced"),
        ({"audio": {}}, "audio is not served here: leave it out"),
    ],
)
def test_the_first_mistake_is_told_by_field(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(RequestError) as refused:
        chat(**fields)
    assert str(refused.value).startswith(told)
    assert refused.value.param
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "body",
    [codecs.BOM_UTF8 + b'{"prompt": "hi"}', '{"prompt": "hi"}'.encode("utf-16"), codecs.BOM_UTF16_BE + b"\0{\0}"],
)
def test_another_encoding_is_told_as_such(body: bytes) -> None:
    with pytest.raises(RequestError) as caught:
        parse(CompletionRequest, body)
    assert str(caught.value) == "the body must be JSON in UTF-8, without a byte-order mark"
    assert caught.value.code == "invalid_json"


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_must_be_finite(value: str) -> None:
    with pytest.raises(RequestError, match="temperature must be a finite number"):
        parse(CompletionRequest, b'{"prompt": "hi", "temperature": %s}' % value.encode())


def test_null_is_the_same_as_absent() -> None:
    given_null = {name: None for name in ChatCompletionRequest.model_fields if name != "messages"}
    assert chat(**given_null) == chat()
    given_null = {name: None for name in CompletionRequest.model_fields if name != "prompt"}
    assert completion(**given_null) == completion()


def test_fields_that_change_nothing_here_are_ignored() -> None:
    chat(user="me", metadata={"a": "b"}, store=True, service_tier="auto", parallel_tool_calls=True, surprise=[1])
    chat(response_format={"type": "text"}, modalities=["text"], tool_choice="auto", functions=[], echo=False)
    completion(suffix="", best_of=2, n=2, echo=True)


@pytest.mark.parametrize(
    ("prompt", "batch"),
    [("hi", ["hi"]), (["a", "b"], ["a", "b"]), ([1, 2], [[1, 2]]), ([[1], [2, 3]], [[1], [2, 3]])],
)
def test_prompts_come_in_four_shapes(prompt: Any, batch: Any) -> None:
    assert completion(prompt=prompt).prompt == batch


@pytest.mark.parametrize("prompt", ["", [], [""], [[]], ["a", 1], [1, "a"], [[1], "a"], [True], [1.0], {}, 5, None])
def test_no_other_prompt_is_taken(prompt: Any) -> None:
    with pytest.raises(RequestError, match="prompt must be a string, a list of strings, a list of token ids"):
        completion(prompt=prompt)


def test_a_missing_prompt() -> None:
    with pytest.raises(RequestError, match="prompt is required"):
        parse(CompletionRequest, b"{}")


def test_limits() -> None:
    assert chat().wanted_tokens is None
    assert chat(max_tokens=3).wanted_tokens == 3
    assert chat(max_tokens=3, max_completion_tokens=4).wanted_tokens == 4
    assert completion(max_tokens=0, echo=True, logprobs=0).scores_prompt
    for fields in ({}, {"echo": True}, {"logprobs": 1}):
        with pytest.raises(RequestError, match="max_tokens must be at least 1"):
            completion(max_tokens=0, **fields)


def test_messages_for_the_template() -> None:
    assert message(role="user", content="x", name="bob") == {"role": "user", "content": "x", "name": "bob"}
    assert message(role="developer", content="x") == {"role": "system", "content": "x"}
    assert (
        message(role="user", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])["content"]
        == "a\nb"
    )
    assert message(role="user", content=[]) == {"role": "user", "content": ""}
    assert message(role="assistant", content=None, refusal=None) == {"role": "assistant", "content": ""}


def test_arguments_of_tool_calls_become_objects() -> None:
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1]}'}}]
    parsed = message(role="assistant", tool_calls=calls)["tool_calls"]
    assert parsed == [{"id": "1", "type": "function", "function": {"name": "f", "arguments": {"a": [1]}}}]
    for arguments, expected in (("", {}), ({"b": 2}, {"b": 2}), (None, None)):
        calls = [{"function": {"name": "f", "arguments": arguments}}]
        assert message(role="assistant", tool_calls=calls)["tool_calls"][0]["function"]["arguments"] == expected
    for wrong in ({"name": "f", "arguments": "{"}, {"arguments": "{}"}, None):
        with pytest.raises(RequestError, match=r"messages\[0\].tool_calls must each have"):
            message(role="assistant", tool_calls=[{"function": wrong}])


def test_logit_bias_has_token_ids_as_keys() -> None:
    assert completion(logit_bias={"5": -1, "7": 2.5}).logit_bias == {5: -1.0, 7: 2.5}
    with pytest.raises(RequestError, match="logit_bias must have token ids as keys"):
        completion(logit_bias={"five": 1})


def test_lists_that_no_context_holds_are_refused_at_their_first_item_too_many() -> None:
    message = {"role": "user", "content": ""}
    with pytest.raises(RequestError, match=f"messages must have at most {MAX_MESSAGES} items"):
        chat(messages=[message] * (MAX_MESSAGES + 1))
    with pytest.raises(RequestError, match=f"tokens must have at most {MAX_DETOKENIZED} items"):
        parse(DetokenizeRequest, json.dumps({"tokens": [1] * (MAX_DETOKENIZED + 1)}).encode())


def test_tokenize_takes_a_prompt_or_messages() -> None:
    for fields in ({}, {"prompt": "a", "messages": [USER]}):
        with pytest.raises(RequestError, match="give either prompt or messages"):
            parse(TokenizeRequest, json.dumps(fields).encode()).check()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from(sorted({*ChatCompletionRequest.model_fields, *CompletionRequest.model_fields, "tool_choice"}))


def refusal(make: Callable[..., object], fields: dict[str, Any]) -> RequestError | None:
    try:
        make(**fields)
    except RequestError as refused:
        return refused
    return None


@given(st.dictionaries(names, json_values, max_size=5))
def test_whatever_comes_is_taken_or_refused_by_field(fields: dict[str, Any]) -> None:
    for make in (chat, completion):
        refused = refusal(make, fields)
        assert refused is None or (refused.param and str(refused))


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_whatever_bytes_come_are_json_or_refused(body: bytes) -> None:
    with pytest.raises(RequestError):
        parse(ChatCompletionRequest, body)
