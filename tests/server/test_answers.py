"""The shapes of answers and streams, on the real engine: what whole answers say, the chunks of a stream say too."""

import json
from typing import Any

import httpx
import pytest

CHAT = {"messages": [{"role": "user", "content": "Tell me a story."}], "temperature": 0, "max_tokens": 12}


def post(client: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
    response = client.post(path, json=body)
    assert response.status_code == 200, response.text
    answer: dict[str, Any] = response.json()
    return answer


def chunks_of(client: httpx.Client, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    """The JSON objects of a stream, which must end with ``[DONE]``."""
    response = client.post(path, json={**body, "stream": True})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    return [json.loads(event.removeprefix("data: ")) for event in events[:-2]]


def test_a_chat_answer_has_openais_shape(client: httpx.Client) -> None:
    response = client.post("/v1/chat/completions", json={**CHAT, "model": "second-name", "ignore_eos": True})
    answer = response.json()
    assert response.headers["x-request-id"] == answer["id"]
    choice = answer["choices"][0]
    assert answer["object"] == "chat.completion"
    assert answer["model"] == "second-name"
    assert answer["id"].startswith("chatcmpl-")
    assert choice["message"] == {"role": "assistant", "content": choice["message"]["content"], "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "length", None)
    usage = answer["usage"]
    assert usage["completion_tokens"] == 12
    assert usage["total_tokens"] == usage["prompt_tokens"] + 12
    assert "cached_tokens" in usage["prompt_tokens_details"]


def assert_alike(one: Any, other: Any) -> None:
    """Equal but for the last bits of numbers: which requests share a step, and so its sums, may vary."""
    if isinstance(one, float):
        assert one == pytest.approx(other, abs=1e-4)
    elif isinstance(one, dict):
        assert_alike(list(one), list(other))
        assert_alike(list(one.values()), list(other.values()))
    elif isinstance(one, list):
        assert len(one) == len(other)
        for mine, its in zip(one, other, strict=True):
            assert_alike(mine, its)
    else:
        assert one == other


@pytest.mark.parametrize("n", [1, 3])
def test_a_streamed_chat_says_the_same_as_a_whole_one(client: httpx.Client, n: int) -> None:
    body = {**CHAT, "n": n, "seed": 11, "temperature": 1.0, "logprobs": True, "top_logprobs": 2, "ignore_eos": True}
    whole = post(client, "/v1/chat/completions", body)
    chunks = chunks_of(client, "/v1/chat/completions", {**body, "stream_options": {"include_usage": True}})
    for choice in whole["choices"]:
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(part["delta"].get("content", "") for part in parts) == choice["message"]["content"]
        assert [part["delta"].get("role") for part in parts] == ["assistant", *[None] * (len(parts) - 1)]
        assert_alike([entry for part in parts for entry in part["logprobs"]["content"]], choice["logprobs"]["content"])
        assert [part["finish_reason"] for part in parts] == [None] * (len(parts) - 1) + ["length"]
    assert len({choice["message"]["content"] for choice in whole["choices"]}) == n  # samples differ from each other
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert chunks[-1]["choices"] == []
    assert all(chunk["usage"] is None for chunk in chunks[:-1])
    assert chunks[-1]["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"] == 12 * n


@pytest.mark.parametrize("echo", [False, True])
@pytest.mark.parametrize("prompt", ["Tell me a story.", [40, 41, 42, 300], ["one", "two words"], [[5, 6], [7, 8, 9]]])
def test_a_streamed_completion_says_the_same_as_a_whole_one(client: httpx.Client, prompt: Any, echo: bool) -> None:
    body = {"prompt": prompt, "max_tokens": 6, "temperature": 0, "echo": echo, "logprobs": 2, "ignore_eos": True}
    whole = post(client, "/v1/completions", body)
    chunks = chunks_of(client, "/v1/completions", body)
    assert len(whole["choices"]) == (2 if isinstance(prompt[0], (list, str)) and isinstance(prompt, list) else 1)
    for choice in whole["choices"]:
        parts = [c for chunk in chunks for c in chunk["choices"] if c["index"] == choice["index"]]
        assert "".join(part["text"] for part in parts) == choice["text"]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
            assert_alike([entry for part in parts for entry in part["logprobs"][name]], choice["logprobs"][name])
    assert "usage" not in chunks[-1]


def test_an_echoed_prompt_is_scored_as_evaluation_harnesses_ask(client: httpx.Client) -> None:
    context, continuation = [50, 60, 70, 80], [90, 91, 92]
    body = {
        "prompt": [[*context, *continuation], [*context, 95]],
        "echo": True,
        "logprobs": 1,
        "max_tokens": 1,
        "temperature": 0,
        "seed": 1234,
    }
    answer = post(client, "/v1/completions", body)
    for choice, length in zip(answer["choices"], (7, 5), strict=True):
        logprobs = choice["logprobs"]
        assert [len(logprobs[name]) for name in ("tokens", "token_logprobs", "top_logprobs")] == [length + 1] * 3
        assert (logprobs["token_logprobs"][0], logprobs["top_logprobs"][0]) == (None, None)
        assert all(score < 0 for score in logprobs["token_logprobs"][1:])
        for token, score, top in list(
            zip(logprobs["tokens"], logprobs["token_logprobs"], logprobs["top_logprobs"], strict=True)
        )[1:]:
            assert top[token] >= score
        assert max(logprobs["top_logprobs"][-1].values()) == logprobs["token_logprobs"][-1]  # the last one is greedy
    assert answer["usage"]["prompt_tokens"] == 12


def test_a_score_of_a_token_does_not_depend_on_what_follows(client: httpx.Client) -> None:
    body = {"echo": True, "logprobs": 0, "max_tokens": 0}
    long = post(client, "/v1/completions", {**body, "prompt": [50, 60, 70, 80, 90, 91, 92]})
    short = post(client, "/v1/completions", {**body, "prompt": [50, 60, 70, 80]})
    scores = [answer["choices"][0]["logprobs"]["token_logprobs"] for answer in (long, short)]
    assert scores[0][1:4] == pytest.approx(scores[1][1:], abs=1e-4)


def test_a_stop_string_ends_the_text_before_it(client: httpx.Client) -> None:
    body = {"prompt": "Once", "max_tokens": 60, "temperature": 0, "ignore_eos": True}
    text = post(client, "/v1/completions", body)["choices"][0]["text"]
    stop = text[20:23]
    choice = post(client, "/v1/completions", {**body, "stop": [stop, "never there"]})["choices"][0]
    assert choice["text"] == text[: text.index(stop)]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", stop)
    chunks = chunks_of(client, "/v1/completions", {**body, "stop": stop})
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == choice["text"]


def test_sampling_settings_reach_the_engine(client: httpx.Client) -> None:
    body = {"prompt": [1, 2, 3], "max_tokens": 5, "temperature": 0, "ignore_eos": True, "logprobs": 0}
    forced = post(client, "/v1/completions", {**body, "logit_bias": {"77": 100}})["choices"][0]
    again = post(client, "/v1/completions", {**body, "logit_bias": {"77": 100}, "stop_token_ids": [77]})["choices"][0]
    assert len(set(forced["logprobs"]["tokens"])) == 1
    assert (again["finish_reason"], again["stop_reason"]) == ("stop", 77)
    seeded = [
        post(client, "/v1/completions", {**body, "temperature": 1, "seed": 5, "max_tokens": 16})["choices"][0]["text"]
        for _ in range(2)
    ]
    assert seeded[0] == seeded[1]


def test_defaults_are_sixteen_tokens_for_text_and_the_room_left_for_chats(client: httpx.Client) -> None:
    text = post(client, "/v1/completions", {"prompt": "hi", "temperature": 0, "ignore_eos": True, "max_tokens": None})
    assert text["usage"]["completion_tokens"] == 16
    full = {**CHAT, "messages": [{"role": "user", "content": "!" * 480}], "max_tokens": None, "ignore_eos": True}
    assert post(client, "/v1/chat/completions", full)["usage"]["total_tokens"] == 512
    newer = post(client, "/v1/chat/completions", {**CHAT, "max_completion_tokens": 3, "ignore_eos": True})
    assert newer["usage"]["completion_tokens"] == 3


def test_messages_reach_the_template(client: httpx.Client) -> None:
    def prompt_of(*messages: dict[str, Any]) -> str:
        tokens = post(client, "/tokenize", {"messages": list(messages)})["tokens"]
        text: str = post(client, "/detokenize", {"tokens": tokens})["prompt"]
        return text

    text = prompt_of(
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]},
        {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "content": "3", "tool_call_id": "x"},
    )
    assert text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\none\ntwo<|im_end|>\n"
        "<|im_start|>assistant\n<|im_end|>\n<|im_start|>tool\n3<|im_end|>\n<|im_start|>assistant\n"
    )


def test_tokens_of_text_and_back(client: httpx.Client) -> None:
    answer = post(client, "/tokenize", {"prompt": "hi 你好", "return_token_strs": True})
    assert answer["count"] == len(answer["tokens"]) == len(answer["token_strs"])
    assert answer["max_model_len"] == 512
    assert post(client, "/detokenize", {"tokens": answer["tokens"]})["prompt"] == "hi 你好"
    assert client.post("/detokenize", json={"tokens": [400]}).status_code == 400
    assert client.post("/tokenize", json={}).status_code == 400


def test_models_health_and_version(client: httpx.Client) -> None:
    models = client.get("/v1/models").json()
    assert [model["id"] for model in models["data"]] == ["demo-model", "second-name"]
    assert models["object"] == "list"
    card = client.get("/v1/models/demo-model").json()
    assert card == models["data"][0]
    assert (card["object"], card["max_model_len"]) == ("model", 512)
    assert client.get("/health").content == b""
    assert client.get("/version").json() == {"version": "0.1.0"}
