"""The generic target over real sockets, and case 19: each thing that can be wrong is named, with a next step."""

import asyncio
import itertools
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.dialects import dialect_named
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.usage import read_usage
from tests.lab.fakes import Canned, FakeServing, Route, as_json, openai_routes, serving_at

FOLDER = Path(__file__).parents[1] / "data" / "cases" / "19-doctor-cannot-reach-or-read"
ASK = ChatRequest(messages=({"role": "user", "content": "Why?"},), max_tokens=3)


def routes_of_case(name: str, asked: list[int] | None = None) -> dict[str, Route]:
    """The routes of one of the case's scenarios."""
    routes: dict[str, Route] = {}
    for spec in json.loads((FOLDER / name).read_text("utf-8"))["routes"]:
        routes[f"{spec['method']} {spec['path']}"] = _route(spec, asked)
    return routes


def _route(spec: Mapping[str, Any], asked: list[int] | None) -> Route:
    def route(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        if "ready_after_s" in spec and asked is not None:
            asked.append(1)
            if len(asked) < 3:
                return as_json({"error": {"message": "loading model", "code": 503}}, 503)
        if "need_key" in spec and headers.get("authorization") != f"Bearer {spec['need_key']}":
            return as_json({"error": {"message": "Unauthorized", "code": 401}}, 401)
        if "json" in spec:
            return as_json(spec["json"], spec.get("status", 200))
        page = (FOLDER / spec["body_file"]).read_bytes()
        return Canned(spec.get("status", 200), "text/html", (page,))

    return route


async def _use(target: OpenAITarget, model: str | None = None, wait_s: float = 30.0) -> str | None:
    """What a run does first: wait, choose the model, ask. Returns the answer's error."""
    try:
        await target.wait_until_ready(limit_s=wait_s)
        await target.choose_model(model)
        await target.wait_until_answering(limit_s=wait_s)
        return (await target.chat(ASK)).answer.error
    finally:
        await target.close()


def use(
    routes: Mapping[str, Route], path: str = "", model: str | None = None, wait_s: float = 30.0, **options: Any
) -> str | None:
    async def run() -> str | None:
        async with serving_at(routes) as port:
            base = BaseUrl.parse(f"http://127.0.0.1:{port}{path}")
            return await _use(OpenAITarget(base, clock=itertools.count(1).__next__, **options), model, wait_s)

    return asyncio.run(run())


def test_a_server_that_is_loading_is_waited_for_up_to_a_limit() -> None:
    assert use(routes_of_case("b-loading.json", [])) is None
    loading = {"GET /v1/models": lambda *_: as_json({"error": {"message": "loading model"}}, 503)}
    with pytest.raises(TargetError, match="is still loading after 0 s: try again later, or raise --wait"):
        use(loading, wait_s=0)


def test_a_server_that_lists_its_model_while_loading_is_waited_for_too() -> None:
    asked: list[int] = []
    loading = routes_of_case("b-loading.json", asked) | {
        "GET /v1/models": routes_of_case("b-loading.json")["GET /v1/models"]
    }
    assert use(loading) is None
    assert len(asked) == 4  # two refusals, the first answer, and the chat itself
    with pytest.raises(TargetError, match="is still loading after 0 s: try again later, or raise --wait"):
        use(loading | {"POST /v1/chat/completions": lambda *_: as_json({"error": {"message": "x"}}, 503)}, wait_s=0)


@pytest.mark.parametrize("path", ["", "/v1", "/v1/", "/"])
def test_the_base_url_works_with_and_without_its_version(path: str) -> None:
    assert use(routes_of_case("c-missing-v1.json"), path) is None


@pytest.mark.parametrize("path", ["/v1/v1", "/api", "/v2"])
def test_another_path_names_the_base_url_to_try(path: str) -> None:
    absent = as_json({"detail": "Not Found"}, 404)
    api = BaseUrl.parse(f"http://127.0.0.1:1{path}").api
    routes: dict[str, Route] = {
        f"GET {api}/models": lambda *_: absent,
        f"POST {api}/chat/completions": lambda *_: absent,
    }
    with pytest.raises(
        TargetError, match=rf"has no {api}/models \(HTTP 404\): try --target http://127\.0\.0\.1:\d+; or"
    ):
        use(routes, path)
    error = use(routes, path, model="any") or ""
    assert re.fullmatch(rf"HTTP 404: Not Found at {api}/chat/completions: try --target http://127\.0\.0\.1:\d+", error)


def test_a_web_page_is_no_api() -> None:
    with pytest.raises(TargetError, match="HTTP 200 with a web page instead of JSON: is this the API's address"):
        use(routes_of_case("d-html-200.json"))


def test_errors_in_an_answer_are_passed_on() -> None:
    assert use(routes_of_case("e-error-in-200.json")) == "upstream quota used up"
    assert "choices is null; its other keys are id, model, object" in (use(routes_of_case("f-choices-null.json")) or "")


def test_a_key_is_asked_for_and_never_shown() -> None:
    routes = routes_of_case("g-401.json")
    error = use(routes) or ""
    assert "wants a key (HTTP 401): put it into an environment variable, say --api-key-env NAME" in error
    error = use(routes, api_key="wrong-key", api_key_env="MY_KEY") or ""
    assert "refuses the key in $MY_KEY (HTTP 401)" in error
    assert "wrong-key" not in error
    assert use(routes, api_key="right-key", api_key_env="MY_KEY") is None
    locked = {"GET /v1/models": lambda *_: as_json({}, 403)}
    with pytest.raises(TargetError, match="wants a key"):
        use(locked)
    with pytest.raises(ConfigError, match=r"the key in \$MY_KEY holds characters"):
        use(routes, api_key="two\nlines", api_key_env="MY_KEY")


def test_the_model_is_found_or_the_nearest_named() -> None:
    two: dict[str, Route] = {"GET /v1/models": lambda *_: as_json({"data": [{"id": "qwen2.5-7b"}, {"id": "llama-3"}]})}
    with pytest.raises(TargetError, match=r"lists 2 models \(qwen2.5-7b, llama-3\): choose one with --model"):
        use(two)
    with pytest.raises(TargetError, match=r"has no model 'qwen-7b'; the nearest that it lists is 'qwen2.5-7b'"):
        use(two, model="qwen-7b")
    no_list = {k: v for k, v in openai_routes(FakeServing()).items() if "models" not in k}
    with pytest.raises(TargetError, match=r"lists 0 models \(none\): choose one with --model"):
        use({"GET /v1/models": lambda *_: as_json({"data": []})})
    with pytest.raises(TargetError, match=r"has no /v1/models \(HTTP 404\): check the address.*; or say --model if"):
        use(no_list)
    assert use(no_list, model="any") is None
    with pytest.raises(TargetError, match="gives no list of models: the answer has no data"):
        use({"GET /v1/models": lambda *_: as_json({"models": []})})


def test_a_redirect_is_told_and_not_followed() -> None:
    moved = Canned(307, headers=("Location: https://elsewhere.example/v1/models",))
    with pytest.raises(TargetError, match=r"redirects to https://elsewhere.example/v1/models: give that address"):
        use({"GET /v1/models": lambda *_: moved}, api_key="secret", api_key_env="K")


def test_chat_tokenizer_counters_and_settings_of_a_full_server() -> None:
    serving = FakeServing()

    async def run() -> None:
        async with serving_at(openai_routes(serving)) as port:
            target = OpenAITarget(BaseUrl.parse(f"127.0.0.1:{port}/v1"), clock=itertools.count(1).__next__)
            await target.wait_until_ready(limit_s=1)
            await target.choose_model(None)
            await target.open_connection()
            assert (target.model, target.max_model_len) == ("fake-model", 8192)
            prompt = {"role": "system", "content": " ".join(f"w{i}" for i in range(40))}
            request = ChatRequest(messages=(prompt, *ASK.messages), max_tokens=3, cache_salt="s")
            first, second = await target.chat(request), await target.chat(request)
            assert first.answer.text == "word0 word1 word2 "
            assert first.answer.first_token_ns is not None
            assert first.sent_ns < first.answer.first_token_ns <= first.end_ns
            assert first.connection_reused
            assert [read_usage(r.answer.usage).num_cached_tokens for r in (first, second)] == [0, 32]
            assert serving.salts == ["s", "s"]
            assert await target.count_text("one two three") == 3
            ids = await target.chat_token_ids(request.messages)
            assert ids is not None
            assert len(ids) == 44
            reading = await target.read_counters()
            assert reading is not None
            assert (reading.queried, reading.cached) == (88, 32)
            assert (await target.cache_settings())["block_size"] == "16"
            assert await target.version() is None
            await target.close()

    asyncio.run(run())


def test_what_a_server_does_not_offer_is_unknown() -> None:
    routes = openai_routes(FakeServing(has_tokenizer=False, has_metrics=False))
    routes["POST /tokenize"] = lambda *_: as_json({"tokens": []})  # asked in another server's words
    routes["GET /metrics"] = lambda *_: Canned(content_type="text/html", writes=(b"<html>not metrics</html>",))
    routes["GET /version"] = lambda *_: as_json({"version": "1.2"})

    async def run() -> None:
        async with serving_at(routes) as port:
            target = OpenAITarget(BaseUrl.parse(f"127.0.0.1:{port}"), clock=itertools.count(1).__next__)
            await target.choose_model(None)
            assert await target.count_text("a b") is None
            assert await target.chat_token_ids(ASK.messages) is None
            assert await target.read_counters() is None
            assert await target.cache_settings() == {}
            assert await target.version() == "1.2"
            await target.close()

    asyncio.run(run())


def test_llama_cpp_is_asked_for_tokens_in_its_own_words_and_for_its_slots() -> None:
    asked: list[Mapping[str, Any]] = []

    def tokenize(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        asked.append(body)
        return as_json({"tokens": list(range(len(body.get("content", "").split())))})

    row = {"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx": 4096, "n_ctx_train": 8192}}
    routes: dict[str, Route] = {
        "GET /v1/models": lambda *_: as_json({"data": [row]}),
        "POST /tokenize": tokenize,
        "POST /apply-template": lambda body, _: as_json({"prompt": f"<s> user {body['messages'][0]['content']} <e>"}),
        "GET /props": lambda *_: as_json({"total_slots": 4}),
    }

    async def run() -> None:
        async with serving_at(routes) as port:
            target = OpenAITarget(BaseUrl.parse(f"127.0.0.1:{port}"), clock=itertools.count(1).__next__)
            await target.choose_model(None)
            await target.identify()
            assert target.max_model_len == 4096
            assert await target.count_text("a b") == 2
            assert await target.chat_token_ids(ASK.messages) == [0, 1, 2, 3]
            assert await target.cache_settings() == {"num_slots": 4}
            await target.close()

    asyncio.run(run())
    assert [body["add_special"] for body in asked] == [False, True]
    assert asked[1]["content"] == "<s> user Why? <e>"


def test_a_server_whose_flag_switches_its_cache_is_told_nothing_else_by_requests() -> None:
    """llama.cpp heeds a request's ``cache_prompt`` over its own ``--no-cache-prompt``."""
    told: list[Any] = []

    def chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        told.append(body.get("cache_prompt"))
        return as_json({"choices": [{"message": {"content": "yes"}}]})

    async def run() -> None:
        async with serving_at({"POST /v1/chat/completions": chat}) as port:
            base = BaseUrl.parse(f"127.0.0.1:{port}")
            target = OpenAITarget(base, clock=itertools.count(1).__next__, dialect=dialect_named("llama.cpp"))
            await target.chat_whole(ASK)
            target.leaves_cache_to_flag = True
            await target.chat_whole(ASK)
            await target.close()

    asyncio.run(run())
    assert told == [True, None]
