"""Real servers' recorded answers, read exactly, and whole runs of the doctor and of an experiment against them."""

import asyncio
import json
from pathlib import Path

import pytest

from anaphora.errors import TargetError
from anaphora.lab import bench
from anaphora.lab.answers import Answer, AnswerReader
from anaphora.lab.bench import run_bench
from anaphora.lab.counters import MetricsText, read_counters
from anaphora.lab.dialects import dialect_named, kind_of
from anaphora.lab.doctor.check import Check, Status
from anaphora.lab.doctor.visits import visit_server
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.results import results_of
from anaphora.lab.usage import Usage, read_usage, server_ttft_ms
from anaphora.traces.records import read_run
from tests.lab.fake_bench import Listener
from tests.lab.fakes import serving_at
from tests.lab.recorded import Recorded

SERVERS = ("vllm", "llama.cpp")


def read(server: str, name: str) -> Answer:
    answered = Recorded(server).exchanges[name]["answered"]
    reader = AnswerReader()
    reader.begin(answered["status"], {key.lower(): value for key, value in answered["headers"].items()})
    for number, chunk in enumerate(answered["chunks"], 1):
        reader.feed(number, chunk.encode("latin-1"))
    return reader.finish(complete=True)


def exchanged(server: str, name: str) -> str:
    return "".join(Recorded(server).exchanges[name]["answered"]["chunks"])


@pytest.mark.parametrize(("server", "cached", "first_chunk"), [("vllm", 256, 2), ("llama.cpp", 307, 1)])
def test_a_repeated_chat_is_read_to_the_token(server: str, cached: int, first_chunk: int) -> None:
    """llama.cpp sends the event with only the role and the first token in one chunk, vLLM in two."""
    new, again = read(server, "chat stream, new"), read(server, "chat stream, again")
    for answer in (new, again):
        assert answer.error is None
        assert answer.finish_reason == "length"
        assert answer.saw_done
        assert answer.num_token_events == 6
        assert answer.first_token_ns == first_chunk
    counts = read_usage(again.usage)
    assert (counts.num_prompt_tokens, counts.num_completion_tokens, counts.num_cached_tokens) == (308, 6, cached)
    assert (server_ttft_ms(again.usage) or 0) < (server_ttft_ms(new.usage) or 0)


def test_what_vllm_wrote_into_its_cache_is_read() -> None:
    assert read_usage(read("vllm", "chat stream, new").usage) == Usage(308, 6, 0, 256)


@pytest.mark.parametrize("server", SERVERS)
def test_whole_answers_and_bare_completions_are_read(server: str) -> None:
    whole = read(server, "chat whole")
    assert whole.error is None
    assert whole.text.startswith("The atlas is")
    completion = read(server, "completion stream")
    assert (completion.error, completion.num_token_events) == (None, 0)  # its one token was the end, which is no text
    assert read_usage(completion.usage).num_completion_tokens == 1


@pytest.mark.parametrize("server", SERVERS)
def test_the_kind_is_told_by_the_model_list_and_by_the_metrics_alone(server: str) -> None:
    rows = json.loads(exchanged(server, "models"))["data"]
    names = MetricsText.parse(exchanged(server, "metrics after")).samples
    assert kind_of("", rows, ()) is kind_of("", (), names) is dialect_named(server)


@pytest.mark.parametrize(
    ("server", "queried", "cached"), [("vllm", 3 * 308 + 5, 2 * 256), ("llama.cpp", 3 * 308 + 5, 2 * 307)]
)
def test_counters_grew_by_what_the_answers_told(server: str, queried: int, cached: int) -> None:
    before, after = (
        read_counters(MetricsText.parse(exchanged(server, f"metrics {when}")), None, dialect_named(server))
        for when in ("before", "after")
    )
    assert before is not None
    assert after is not None
    assert (after.queried - before.queried, after.cached - before.cached) == (queried, cached)


@pytest.mark.parametrize(
    ("server", "name", "words"),
    [
        ("vllm", "error: no list of messages", "HTTP 400: 1 validation error: {'type': 'list_type'"),
        ("vllm", "error: no such model", "HTTP 404: The model `no-such-model` does not exist"),
        ("vllm", "error: salt with a slash", "HTTP 400: Parameter 'cache_salt' must be at most 128 characters"),
        ("vllm", "tools", 'HTTP 400: "auto" tool choice requires --enable-auto-tool-choice'),
        ("llama.cpp", "error: no list of messages", "HTTP 400: Expected 'messages' to be an array"),
    ],
)
def test_errors_are_told_in_the_servers_words(server: str, name: str, words: str) -> None:
    assert (read(server, name).error or "").startswith(words)


@pytest.mark.parametrize("server", SERVERS)
def test_the_doctor_finds_a_healthy_server(server: str) -> None:
    checks = examined(Recorded(server))
    assert {check.name for check in checks.values() if check.status is Status.FAULT} == set()
    title = {"vllm": "vLLM 0.32.0", "llama.cpp": "llama.cpp"}[server]
    assert checks["kind of server"].seen == title
    assert checks["model"].seen.endswith("context 4096 tokens")
    assert checks["metrics"].status is checks["usage"].status is Status.OK
    assert "came from the cache, by usage and counters alike" in checks["prefix cache"].seen


def test_the_doctor_says_which_flag_shows_cached_tokens() -> None:
    checks = examined(Recorded("vllm", hides_cached=True))
    assert checks["usage"].status is Status.WARNING
    assert checks["usage"].fix == "start the server with --enable-prompt-tokens-details"
    assert checks["prefix cache"].status is Status.OK


def examined(server: Recorded) -> dict[str, Check]:
    async def visit() -> list[Check]:
        async with serving_at(server.routes()) as port:
            return await visit_server(f"http://127.0.0.1:{port}")

    return {check.name: check for check in asyncio.run(visit())}


@pytest.mark.parametrize(
    ("server", "mechanism"),
    [
        (Recorded("vllm"), "salt"),
        (Recorded("vllm", hides_cached=True), "salt"),
        (Recorded("llama.cpp"), "nonce"),
    ],
    ids=["vllm", "vllm by default", "llama.cpp"],
)
def test_switch_agrees_to_the_token_with_every_witness(
    server: Recorded, mechanism: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def measure() -> None:
        async with serving_at(server.routes()) as port:
            options = BenchOptions(
                target=f"http://127.0.0.1:{port}",
                experiments=(SwitchSettings(prefix_tokens=300, num_questions=3, output_tokens=6),),
            )
            await run_bench(options, tmp_path, Listener())

    monkeypatch.setattr(bench, "calibrate", not_here)
    asyncio.run(measure())
    run = read_run(tmp_path)
    assert run.header.settings["mechanism"] == mechanism
    assert run.header.settings["exact_lengths"]
    trust = {check["name"]: check for check in results_of(run)["trust"]}
    for name in ("off requests missed", "on requests hit", "witnesses agree", "counters"):
        assert trust[name]["status"] == "ok", trust[name]
    assert trust["witnesses agree"]["seen"].startswith("to the token")


async def not_here(*_: object, **__: object) -> None:
    """Calibrating takes a second, and nothing of it is looked at."""
    raise TargetError("not calibrated in this test")
