"""Case 13: bad requests get a prompt 4xx that names the field, and the server lives on."""

import gzip
import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anaphora.server.settings import ServerSettings
from tests.patience import PATIENCE_S
from tests.server.live import MODEL, client_of, serving

CASE = Path(__file__).parents[1] / "data" / "cases" / "13-server-bad-requests"
BAD = [json.loads(line) for line in (CASE / "requests.jsonl").read_text().splitlines()]
MAX_BODY_BYTES = 100_000
NAMED = {
    "negative-max-tokens": "max_tokens",
    "zero-max-tokens": "max_tokens",
    "empty-messages": "messages",
    "messages-missing": "messages",
    "messages-not-list": "messages",
    "content-number": "content",
    "unknown-model": "no-such-model",
    "temperature-negative": "temperature",
    "top-p-negative": "top_p",
    "top-p-big": "top_p",
    "n-zero": "n ",
    "stream-options-without-stream": "stream_options",
    "bad-role": "role",
    "empty-prompt": "prompt",
    "out-of-vocab-id": "99999999",
}


@pytest.fixture(scope="module")
def http(tiny_model: Path) -> Iterator[httpx.Client]:
    limits = ServerSettings(served_model_names=(MODEL,), max_body_bytes=MAX_BODY_BYTES)
    with (
        serving(tiny_model, limits, max_model_len=256) as server,
        client_of(server) as client,
    ):
        yield client


@pytest.fixture(autouse=True)
def _lives_on(http: httpx.Client) -> Iterator[None]:
    yield
    assert http.get("/health").status_code == 200
    good = http.post("/v1/completions", json={"model": MODEL, "prompt": "all is well", "max_tokens": 2})
    assert good.status_code == 200
    assert good.json()["choices"][0]["finish_reason"] in ("length", "stop")


def error_of(response: httpx.Response, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error"
    assert error["code"]
    assert "Traceback" not in response.text
    return error


@pytest.mark.parametrize("case", BAD, ids=[case["id"] for case in BAD])
def test_a_bad_request_is_told_what_is_wrong(http: httpx.Client, case: dict[str, Any]) -> None:
    response = http.post(case["path"], json=case["body"])
    if case["expect_status"] == 200:
        assert response.status_code == 200
        return
    expected = case["expect_status"]
    error = error_of(response, expected[0] if isinstance(expected, list) else expected)
    assert NAMED.get(case["id"], "") in error["message"]


def test_a_prompt_that_is_too_long_is_told_both_numbers(http: httpx.Client) -> None:
    case = next(case for case in BAD if case["id"] == "too-long-prompt")
    error = error_of(http.post(case["path"], json=case["body"]), 400)
    length = http.post("/tokenize", json={"messages": case["body"]["messages"]}).json()["count"]
    assert error["message"] == (
        f"the messages have {length} tokens, but prompt and output together may have 256: shorten them"
    )
    assert (error["param"], error["code"]) == ("messages", "context_length_exceeded")
    error = error_of(http.post("/v1/completions", json={"prompt": [7] * 250, "max_tokens": 10}), 400)
    assert "256" in error["message"]
    assert "260" in error["message"]
    assert error["code"] == "context_length_exceeded"


def test_a_prompt_that_fills_the_context_without_a_limit_given_is_too_long(http: httpx.Client) -> None:
    error = error_of(
        http.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": "x" * 999}]}), 400
    )
    assert error["code"] == "context_length_exceeded"


@pytest.mark.parametrize(
    "body", [(CASE / "not-json.txt").read_bytes(), b"", b"[1]", b"\xff", b"[" * 5000, "{}".encode("utf-16")]
)
def test_a_body_that_is_no_json_object(http: httpx.Client, body: bytes) -> None:
    error = error_of(http.post("/v1/chat/completions", content=body), 400)
    assert "JSON" in error["message"]


def test_a_compressed_body_is_refused_as_such(http: httpx.Client) -> None:
    body = gzip.compress(b'{"prompt": "hi"}')
    error = error_of(http.post("/v1/completions", content=body, headers={"Content-Encoding": "gzip"}), 400)
    assert error["message"] == "bodies with Content-Encoding gzip are not read: send it as it is"


def test_a_json_body_needs_no_content_type(http: httpx.Client) -> None:
    body = json.dumps({"prompt": "hi", "max_tokens": 1})
    assert http.post("/v1/completions", content=body, headers={"Content-Type": "text/plain"}).status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 2.5}, "max_tokens"),
        ({"temperature": "hot"}, "temperature"),
        ({"stream": "yes"}, "stream"),
        ({"stop": [1]}, "stop"),
        ({"stop": ""}, "stop"),
        ({"logit_bias": {"x": 1}}, "logit_bias"),
        ({"logit_bias": {"400": 1}}, "logit_bias"),
        ({"logit_bias": {" 5": 1}}, "logit_bias"),
        ({"logit_bias": {"1_0": 1}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 1}}, "logit_bias"),
        ({"logit_bias": {"5": 10**400}}, "logit_bias"),
        ({"stop_token_ids": [400]}, "stop_token_ids"),
        ({"min_tokens": 17}, "min_tokens"),
        ({"logprobs": 21}, "logprobs"),
        ({"n": 1000}, "n"),
        ({"best_of": 2}, "best_of"),
        ({"suffix": "end"}, "suffix"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": 0, "echo": True}, "max_tokens"),
        ({"include_ledger": True, "stream": True}, "include_ledger"),
        ({"cache_salt": "s" * 129}, "cache_salt"),
    ],
)
def test_a_wrong_field_is_named(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    error = error_of(http.post("/v1/completions", json={"prompt": "hi", **fields}), 400)
    assert error["param"] == param
    assert param in error["message"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"chat_template": "{{ messages }}"}, "chat_template"),
        ({"tools": [{}], "tool_choice": "required"}, "tool_choice"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"top_logprobs": 2}, "top_logprobs"),
        ({"chat_template_kwargs": {"messages": []}}, "chat_template_kwargs"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content"),
        ({"messages": [{"role": "user"}]}, "messages[0]"),
        (
            {
                "messages": [
                    {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "[" * 50_000}}]}
                ]
            },
            "messages[0].tool_calls",
        ),
        ({"n": 129}, "n"),
    ],
)
def test_what_a_chat_cannot_have_is_named(http: httpx.Client, fields: dict[str, Any], param: str) -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], **fields}
    assert error_of(http.post("/v1/chat/completions", json=body), 400)["param"] == param


def test_unknown_paths_and_wrong_methods(http: httpx.Client) -> None:
    assert error_of(http.get("/v1/embeddings"), 404)["message"] == "no such path: GET /v1/embeddings"
    assert error_of(http.get("/cache/requests/none"), 404)["message"] == "no answer 'none' among the last 1024"
    response = http.get("/v1/chat/completions")
    assert error_of(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"] == "POST"


def test_an_unknown_model_is_named_with_those_that_are_there(http: httpx.Client) -> None:
    error = error_of(http.get("/v1/models/gpt-9"), 404)
    assert error["message"] == "the model 'gpt-9' is not served here, only demo-model"
    assert (error["param"], error["code"]) == ("model", "model_not_found")


def test_a_body_over_the_limit_is_refused_with_a_declared_length(http: httpx.Client) -> None:
    error = error_of(http.post("/v1/completions", json={"prompt": "x" * MAX_BODY_BYTES}), 413)
    assert str(MAX_BODY_BYTES) in error["message"]


def test_a_body_over_the_limit_is_refused_when_sent_in_chunks(http: httpx.Client) -> None:
    chunks = (b"x" * 10_000 for _ in range(30))
    assert error_of(http.post("/v1/completions", content=chunks), 413)["code"] == "body_too_large"


def test_a_client_that_asks_before_sending_a_long_body_is_told_at_once(http: httpx.Client) -> None:
    connection = HTTPConnection(http.base_url.host, http.base_url.port, timeout=PATIENCE_S)
    connection.putrequest("POST", "/v1/completions")
    connection.putheader("Expect", "100-continue")
    connection.putheader("Content-Length", str(10**9))
    connection.endheaders()
    with closing(connection), connection.getresponse() as response:
        assert response.status == 413
        assert json.load(response)["error"]["code"] == "body_too_large"


STREAM_OPTIONS = [json.loads(line) for line in (CASE / "stream-options.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", STREAM_OPTIONS, ids=[case["id"] for case in STREAM_OPTIONS])
def test_the_usage_chunk_comes_when_asked_for(http: httpx.Client, case: dict[str, Any]) -> None:
    body = {"prompt": "hi", "max_tokens": 3, "stream": True, "stream_options": case["stream_options"]}
    lines = [line for line in http.post("/v1/completions", json=body).text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert [not chunk["choices"] for chunk in chunks] == [False] * (len(chunks) - 1) + [case["usage_chunk"]]
    assert ("usage" in chunks[0]) == case["usage_chunk"]


NUMBERS = (
    st.integers() | st.floats(allow_nan=False) | st.sampled_from([0, 1, -1, 2**31, 2**63 - 1, -(2**63), 2**63, 1e-300])
)
NUMERIC = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "repetition_penalty",
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys((*NUMERIC, "max_tokens", "min_tokens", "logprobs"), NUMBERS),
        "n": st.integers(max_value=4),
        "stop": st.lists(st.text(max_size=3), max_size=3),
        "stop_token_ids": st.lists(NUMBERS, max_size=3),
        "logit_bias": st.dictionaries(st.integers().map(str), NUMBERS, max_size=3),
        "ignore_eos": st.booleans(),
        "echo": st.booleans(),
    },
)


@given(fields=FIELDS, prompt=st.text(min_size=1, max_size=20) | st.lists(st.integers(0, 399), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_value_of_any_field_breaks_the_server(http: httpx.Client, fields: dict[str, Any], prompt: Any) -> None:
    body = json.dumps({"max_tokens": 3, **fields, "prompt": prompt})  # writes Infinity, which is no JSON, too
    response = http.post("/v1/completions", content=body)
    if response.status_code != 200:
        error_of(response, 400)
