"""What a client is told when the engine fails, refuses or stops; and nothing of a traceback, ever."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.engine import EngineConfig
from anaphora.errors import EngineDeadError, EngineOverloadedError, EngineStepError
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.patience import LOCAL
from tests.server.live import LiveServer, serving
from tests.server.scripted_backend import ScriptedBackend

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture
def backend(tiny_model: Path) -> ScriptedBackend:
    return ScriptedBackend(Tokenizer.from_folder(tiny_model))


@pytest.fixture
def server(backend: ScriptedBackend) -> Iterator[LiveServer]:
    with serving(backend=backend) as server:
        yield server


def ask(server: LiveServer, **fields: Any) -> httpx.Response:
    return httpx.post(f"{server.url}/v1/chat/completions", json={**CHAT, **fields}, **LOCAL)


def events(response: httpx.Response) -> list[Any]:
    assert response.status_code == 200
    data = [event.removeprefix("data: ") for event in response.text.split("\n\n") if event]
    return [entry if entry == "[DONE]" else json.loads(entry) for entry in data]


def test_more_choices_than_the_engine_ever_holds_are_a_mistake(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.config = EngineConfig(max_num_seqs=1, max_waiting_requests=2)
    assert len(ask(server, n=3).json()["choices"]) == 3
    response = ask(server, n=4)
    assert (response.status_code, response.json()["error"]["param"]) == (400, "n")
    assert response.json()["error"]["message"] == "n times the number of prompts may be at most 3, got 4"
    prompts = httpx.post(f"{server.url}/v1/completions", json={"prompt": ["a", "b"], "n": 2}, **LOCAL)
    assert (prompts.status_code, prompts.json()["error"]["param"]) == (400, "n")
    assert len(backend.requests) == 3


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "code", "message"),
    [
        (EngineOverloadedError("9 requests wait"), 503, "unavailable", "9 requests wait"),
        (EngineDeadError("the engine has stopped"), 503, "unavailable", "the engine has stopped"),
        (EngineStepError("the model failed"), 500, "internal_error", "the model failed"),
        (ZeroDivisionError("a secret detail"), 500, "internal_error", "internal server error"),
    ],
)
def test_an_error_before_any_output_is_a_status(
    server: LiveServer, backend: ScriptedBackend, error: Exception, status: int, code: str, message: str, stream: bool
) -> None:
    for n in (1, 2):
        backend.refusal, backend.script = (error, ["unused"]) if n == 1 else (None, [error])
        response = ask(server, stream=stream, n=n)
        expected = {"message": message, "type": "server_error", "param": None, "code": code}
        assert (response.status_code, response.json()) == (status, {"error": expected})
        assert response.headers.get("retry-after") == ("1" if isinstance(error, EngineOverloadedError) else None)
        assert backend.num_open == 0


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("error", [EngineStepError("the model failed"), ZeroDivisionError("a secret detail")])
def test_an_error_within_a_stream_is_its_last_event(
    server: LiveServer, backend: ScriptedBackend, error: Exception, n: int
) -> None:
    backend.script = ["some text", error]
    *chunks, last = events(ask(server, stream=True, n=n))
    assert [chunk["choices"][0]["delta"]["content"] for chunk in chunks] == ["some text"] * n
    assert last["error"]["message"] == (
        "the model failed" if isinstance(error, EngineStepError) else "internal server error"
    )
    assert backend.num_open == 0


def test_a_request_that_the_engine_ends_early_has_no_answer(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.ending = "abort"
    assert ask(server).status_code == 503
    assert events(ask(server, stream=True))[-1]["error"]["code"] == "unavailable"


def test_text_that_is_held_back_makes_no_chunk(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.script = ["", "", "abc", "", "d", ""]
    chunks = events(ask(server, stream=True))
    assert chunks.pop() == "[DONE]"
    assert [chunk["choices"][0]["delta"] for chunk in chunks] == [
        {"role": "assistant", "content": "abc"},
        {"content": "d"},
        {},
    ]


def test_an_answer_without_any_text_still_has_a_role(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.script = ["", ""]
    chunks = events(ask(server, stream=True))
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert ask(server).json()["choices"][0]["message"]["content"] == ""


def test_a_dead_engine_is_not_healthy(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.is_healthy = False
    response = httpx.get(f"{server.url}/health", **LOCAL)
    assert (response.status_code, response.json()["error"]["type"]) == (503, "server_error")


def test_a_reset_that_was_refused_says_so(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.resets = False
    response = httpx.post(f"{server.url}/reset_prefix_cache", **LOCAL)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "cache_in_use")


def test_a_model_without_a_chat_template(server: LiveServer, backend: ScriptedBackend) -> None:
    backend.tokenizer._chat_template = None
    assert ask(server).json()["error"]["message"] == "this model has no chat template: use /v1/completions"


def test_requests_carry_tenant_and_settings(server: LiveServer, backend: ScriptedBackend) -> None:
    ask(server, n=2, seed=7, cache_salt="s", cache_prompt=False, max_tokens=9, tools=[])
    first, second = backend.requests
    assert (first.namespace, first.lookup, first.params.max_tokens) == ("salt:1:s", False, 9)
    assert (first.params.seed, second.params.seed) == (7, 8)
    assert first.request_id != second.request_id
    assert first.prompt_token_ids == second.prompt_token_ids
