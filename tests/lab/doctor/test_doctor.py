"""The doctor before scripted servers: each fault gets its own name, proof and advice; a healthy server gets none."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from anaphora.cli.main import run
from anaphora.errors import ConfigError
from anaphora.lab.doctor.check import Check, Status
from anaphora.lab.doctor.visits import visit_server
from anaphora.lab.targets.managed import free_port
from tests.lab.fakes import Canned, DropsSystem, FakeServing, Route, as_json, openai_routes, serving_at

NAMES = [
    "reachable",
    "address",
    "key",
    "model",
    "kind of server",
    "answer",
    "stream",
    "usage",
    "metrics",
    "prefix cache",
]


def examine(routes: Mapping[str, Route], path: str = "", **options: Any) -> dict[str, Check]:
    async def go() -> list[Check]:
        async with serving_at(routes) as port:
            return await visit_server(f"http://127.0.0.1:{port}{path}", **options)

    checks = asyncio.run(go())
    assert [check.name for check in checks] == NAMES
    return {check.name: check for check in checks}


def whole(routes: dict[str, Route]) -> dict[str, Route]:
    """The fake's chat, answered whole when no stream is asked for."""
    streamed = routes["POST /v1/chat/completions"]

    def chat(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        if body.get("stream"):
            return streamed(body, headers)
        return as_json({"choices": [{"message": {"content": "yes"}, "finish_reason": "stop"}], "usage": None})

    return {**routes, "POST /v1/chat/completions": chat}


def faults(checks: Mapping[str, Check]) -> list[str]:
    return [name for name, check in checks.items() if check.status is Status.FAULT]


def test_a_healthy_server_has_no_fault_and_its_hit_is_told_by_both_witnesses() -> None:
    checks = examine(whole(openai_routes(FakeServing())))
    assert faults(checks) == []
    assert checks["kind of server"].seen == "vLLM"
    assert checks["model"].seen == "'fake-model' is listed, context 8192 tokens"
    assert checks["metrics"].seen.endswith(": 0 of 30 cached so far")  # the doctor's own first requests
    assert checks["prefix cache"].status is Status.OK
    assert "608 of 622 tokens of a repeated prompt came from the cache, by usage and counters alike" in (
        checks["prefix cache"].seen
    )


@pytest.mark.parametrize("path", ["/v1", "/v1/", "/", "/v1/chat/completions"])
def test_every_usual_way_to_write_the_base_url_is_understood(path: str) -> None:
    checks = examine(whole(openai_routes(FakeServing())), path)
    assert checks["address"].status is Status.OK
    assert checks["address"].seen.startswith("the API is at /v1; clients that want it in the base URL take http://127.")


def test_v1_written_twice_is_a_fault_with_the_right_address() -> None:
    checks = examine(whole(openai_routes(FakeServing())), "/v1/v1")
    assert faults(checks) == ["address"]
    assert checks["address"].fix.endswith("/v1 as the base URL: the API answers there")
    assert checks["prefix cache"] == Check("prefix cache", Status.NOT_APPLICABLE, "rests on: address")


def test_nothing_listens() -> None:
    port = free_port()
    checks = asyncio.run(visit_server(f"127.0.0.1:{port}"))
    assert (checks[0].name, checks[0].status) == ("reachable", Status.FAULT)
    assert checks[0].seen == f"nothing answers at http://127.0.0.1:{port} (Connection refused)"
    assert checks[0].fix == "start the server, or correct the address"


def test_a_loading_server_is_waited_for() -> None:
    routes, asked = whole(openai_routes(FakeServing())), []

    def models(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        asked.append(1)
        return ready(body, headers) if len(asked) > 2 else as_json({"error": {"message": "loading"}}, 503)

    ready, routes["GET /v1/models"] = routes["GET /v1/models"], models
    checks = examine(routes)
    assert checks["reachable"].seen.endswith("answers after loading its model")
    asked.clear()
    routes["GET /v1/models"] = lambda body, headers: as_json({"error": {"message": "loading"}}, 503)
    checks = examine(routes, wait_s=0.1)
    assert faults(checks) == ["reachable"]
    assert "is still loading after 0.1 s" in checks["reachable"].seen


@pytest.mark.parametrize("open_list", [True, False])
def test_keys_lacking_and_wrong(open_list: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = whole(openai_routes(FakeServing()))
    refusal = as_json({"error": {"message": "Incorrect API key provided"}}, 401)

    def guarded(route: Route) -> Route:
        return lambda body, headers: (
            route(body, headers) if headers.get("authorization") == "Bearer right-key" else refusal
        )

    open_names = {"GET /v1/models"} if open_list else set()
    locked = {name: route if name in open_names else guarded(route) for name, route in routes.items()}
    checks = examine(locked)
    assert faults(checks) == ["key"]
    assert "wants a key (HTTP 401)" in checks["key"].seen
    assert "--api-key-env NAME" in checks["key"].fix
    monkeypatch.setenv("SOME_KEY", "wrong-key")
    checks = examine(locked, api_key_env="SOME_KEY")
    assert faults(checks) == ["key"]
    assert "refuses the key in $SOME_KEY" in checks["key"].seen
    monkeypatch.setenv("SOME_KEY", "Bearer right-key")
    checks = examine(locked, api_key_env="SOME_KEY")
    assert faults(checks) == ["key"]
    assert checks["key"].fix.endswith("leave the word out")
    monkeypatch.setenv("SOME_KEY", "right-key")
    checks = examine(locked, api_key_env="SOME_KEY")
    assert faults(checks) == []
    assert checks["key"].seen == "the key in $SOME_KEY is accepted"
    assert not any("right-key" in check.seen + check.fix for check in checks.values())
    with pytest.raises(ConfigError, match="NOT_THERE is not set"):
        examine(locked, api_key_env="NOT_THERE")


def test_a_wrong_model_gets_the_nearest_and_several_ask_for_a_choice() -> None:
    routes = whole(openai_routes(FakeServing()))
    checks = examine(routes, model="fake-mode")
    assert faults(checks) == ["model"]
    assert "no model 'fake-mode'; the nearest that it lists is 'fake-model'" in checks["model"].seen + (
        checks["model"].fix
    )
    routes["GET /v1/models"] = lambda body, headers: as_json({"data": [{"id": "fake-model"}, {"id": "other"}]})
    checks = examine(routes)
    assert faults(checks) == []
    assert checks["model"].seen == "2 are listed (fake-model, other); fake-model was examined"
    assert checks["model"].fix == "choose one with --model"


@pytest.mark.parametrize(
    ("answer", "seen"),
    [
        (as_json({"error": {"message": "upstream quota used up"}}), "upstream quota used up"),
        (as_json({"id": "x", "choices": None}), "choices is null; its other keys are id"),
        (as_json({"result": "hello"}), "the answer has no choices; it has the keys result"),
        (Canned(content_type="text/html", writes=(b"<html>hi</html>",)), "web page instead of JSON"),
    ],
)
def test_answers_that_are_none_are_told_apart(answer: Canned, seen: str) -> None:
    routes = whole(openai_routes(FakeServing()))
    routes["POST /v1/chat/completions"] = lambda body, headers: answer
    checks = examine(routes)
    assert faults(checks) == ["answer"]
    assert seen in checks["answer"].seen
    assert checks["answer"].fix


def test_an_html_page_instead_of_the_model_list() -> None:
    page = Canned(content_type="text/html", writes=(b"<html>welcome</html>",))
    checks = examine({"GET /v1/models": lambda body, headers: page})
    assert faults(checks) == ["address"]
    assert "web page instead of JSON" in checks["address"].seen


def test_a_stream_that_is_kept_back_and_one_that_is_none() -> None:
    routes = whole(openai_routes(FakeServing()))
    streamed = routes["POST /v1/chat/completions"]

    def in_one_go(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        answer = streamed(body, headers)
        return (
            Canned(content_type=answer.content_type, writes=(b"".join(answer.writes),)) if "stream" in body else answer
        )

    checks = examine({**routes, "POST /v1/chat/completions": in_one_go})
    assert faults(checks) == []
    assert checks["stream"].status is Status.WARNING
    assert "something between keeps them back" in checks["stream"].seen

    def never(body: Mapping[str, Any], headers: Mapping[str, str]) -> Canned:
        return streamed({**body, "stream": False}, headers)

    checks = examine({**routes, "POST /v1/chat/completions": never})
    assert faults(checks)[0] == "stream"
    assert "a whole answer came" in checks["stream"].seen


def test_hidden_usage_and_absent_or_foreign_metrics_name_the_option() -> None:
    checks = examine(whole(openai_routes(FakeServing(shows_cached=False))))
    assert checks["usage"].fix == "start the server with --enable-prompt-tokens-details"
    assert checks["prefix cache"].status is Status.OK  # the counters tell
    routes = whole(openai_routes(FakeServing(shows_cached=False, has_metrics=False)))
    checks = examine(routes)
    assert checks["kind of server"].status is Status.NOT_APPLICABLE
    assert checks["metrics"].status is Status.NOT_APPLICABLE
    assert checks["prefix cache"].status is Status.WARNING
    assert "not told by the server; TTFT of new prompts" in checks["prefix cache"].seen
    other = Canned(content_type="text/plain", writes=(b"# TYPE up gauge\nup 1.0\n",))
    checks = examine({**routes, "GET /metrics": lambda body, headers: other})
    assert checks["metrics"].status is Status.WARNING
    assert "no cache counters under any name that is known" in checks["metrics"].seen


@dataclass
class Several(FakeServing):
    """Two servers behind one address; requests go to the one and the other in a fixed pattern."""

    other: FakeServing = field(default_factory=FakeServing)
    turn: int = 0

    def serve(self, messages: Any, salt: str | None, tools: Any = ()) -> tuple[int, int]:
        self.turn += 1
        return super().serve(messages, salt) if self.turn % 2 else self.other.serve(messages, salt)


@dataclass
class Salting(FakeServing):
    """A gateway that gives every request without a salt one of its own."""

    def serve(self, messages: Any, salt: str | None, tools: Any = ()) -> tuple[int, int]:
        return super().serve(messages, salt or f"own {len(self.salts)}")


@dataclass
class Small(FakeServing):
    """Room for a few blocks: whatever is longer than that leaves none of its own."""

    room: int = 24

    def serve(self, messages: Any, salt: str | None, tools: Any = ()) -> tuple[int, int]:
        counts = super().serve(messages, salt)
        if counts[0] > self.room * self.block_size:
            self._blocks.clear()
        return counts


@dataclass
class WrongUsage(FakeServing):
    """Counts its hits, and tells none."""

    def usage(self, num_prompt: int, num_output: int, cached: int) -> dict[str, Any]:
        return super().usage(num_prompt, num_output, 0)


@pytest.mark.parametrize(
    ("serving", "status", "seen", "fix"),
    [
        (FakeServing(caching=False), Status.FAULT, "did not move: caching is off", "--no-enable-prefix-caching"),
        (
            FakeServing(caching=False, has_metrics=False),
            Status.FAULT,
            "no repeated prompt hit, at no length and with no salt",
            "caching seems to be off",
        ),
        (Several(has_metrics=False), Status.FAULT, "several servers stand behind this address", "route by prefix"),
        (Salting(), Status.FAULT, "each request has a salt of its own", "send the same cache_salt"),
        (FakeServing(block_size=1024), Status.FAULT, "shorter beginnings than one cache block", "smaller block size"),
        (Small(), Status.FAULT, "it was evicted before it came again", "more memory"),
        (DropsSystem(), Status.FAULT, "words came to 15 tokens: the chat template", "correct the chat template"),
        (WrongUsage(), Status.WARNING, "tells 0 cached tokens, the server's counters 608", "trust the counters"),
    ],
)
def test_a_hit_rate_of_zero_has_its_cause_shown(serving: FakeServing, status: Status, seen: str, fix: str) -> None:
    check = examine(whole(openai_routes(serving)))["prefix cache"]
    assert check.status is status
    assert seen in check.seen
    assert fix in check.fix


def test_a_model_without_system_messages_is_examined_without_them() -> None:
    checks = examine(openai_routes(FakeServing(takes_system=False)))
    assert faults(checks) == []
    assert checks["answer"].status is Status.WARNING
    assert "system messages are refused (HTTP 400: System role not supported)" in checks["answer"].seen
    assert "at the beginning of the user's message" in checks["answer"].fix
    assert checks["prefix cache"].status is Status.OK


def test_the_command_ends_with_1_on_a_fault_and_with_2_on_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    port = free_port()
    assert run(["doctor", f"127.0.0.1:{port}", "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in told] == NAMES
    assert set(told[0]) == {"name", "status", "seen", "fix"}
    assert told[0]["status"] == "fault"
    assert run(["doctor", f"127.0.0.1:{port}"]) == 1
    shown = capsys.readouterr().out
    assert "FAULT    reachable" in shown
    assert "→ start the server, or correct the address" in shown
    assert run(["doctor"]) == 2
    assert "give a server's URL, --client-config FILE or --prompts FILE" in capsys.readouterr().err
    assert run(["doctor", "ftp://x"]) == 2


def test_the_kind_of_server_is_detected_or_taken_as_said(capsys: pytest.CaptureFixture[str]) -> None:
    routes = whole(openai_routes(FakeServing()))
    assert examine(routes)["kind of server"].seen == "vLLM"
    said = examine(routes, kind="sglang")
    assert said["kind of server"].seen == "SGLang, as was said with --kind"
    assert said["metrics"].status is Status.WARNING  # vLLM's names are not read as SGLang's
    assert run(["doctor", "http://127.0.0.1:1", "--kind", "vlm"]) == 2
    assert "no kind of server is called 'vlm': did you mean vllm?" in capsys.readouterr().err
