"""`anaphora serve` from the outside: what it says, how it ends."""

import json
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from anaphora.cli.main import run
from tests.patience import LOCAL
from tests.server_process import ServerUnderTest, server_process

LONG = {"prompt": [5], "n": 32, "max_tokens": 400, "ignore_eos": True, "stream": True}


def events(response: httpx.Response) -> list[str]:
    return [event.removeprefix("data: ") for event in response.read().decode().split("\n\n") if event]


def assert_ended_well(server: ServerUnderTest) -> None:
    assert server.wait() == 0, server.log
    assert "Traceback" not in server.log


def test_it_tells_what_it_serves_and_drains_on_sigterm(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_log = tmp_path / "requests.jsonl"
    argv = ["--no-enable-prefix-caching", "--gpu-memory-utilization", "0.85", "--served-model-name", "qwen2.5-7b"]
    argv += ["--request-log", str(request_log), "--drain-seconds", "600"]  # longer than this machine may stand still
    with server_process(tiny_model, *argv, environment={"ANAPHORA_API_KEY": "s3cret"}) as server:
        for told in (
            "prefix caching is off",
            "gpu_memory_utilization has no effect on CPU",
            "serving tiny as qwen2.5-7b",
            '"api_key": 1',
            " blocks, ",
            f"requests are logged to {request_log}, prompts as digests",
        ):
            assert told in server.log
        port = server.url.rpartition(":")[2]
        assert run(["serve", "/no/such/model", "--port", port]) == 2
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
        assert httpx.get(f"{server.url}/v1/models", **LOCAL).status_code == 401
        headers = {"Authorization": "Bearer s3cret"}
        body = {**LONG, "n": 4}
        with httpx.stream("POST", f"{server.url}/v1/completions", json=body, headers=headers, **LOCAL) as stream:
            server.process.send_signal(signal.SIGTERM)
            assert events(stream)[-1] == "[DONE]"
        assert_ended_well(server)
        assert "no chats" not in server.log
        assert 'POST /v1/completions HTTP/1.1" 200' in server.log
        assert "s3cret" not in server.log
    rows = [json.loads(line) for line in request_log.read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["server", *["served"] * 4]
    assert [row["output_tokens"] for row in rows[1:]] == [400] * 4
    assert "s3cret" not in request_log.read_text()


def test_after_the_drain_limit_streams_end_with_an_error(tiny_model: Path, tmp_path: Path) -> None:
    without_template = Path(shutil.copytree(tiny_model, tmp_path / "tiny"))
    (without_template / "tokenizer_config.json").write_text("{}")
    argv = ("--drain-seconds", "0", "--no-access-log", "--host", "localhost")
    with server_process(without_template, *argv) as server:
        assert "answers no chats, text completions only: it has no chat template" in server.log
        assert "prefix caching is on: shared beginnings of at least 16 tokens are reused" in server.log
        with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, **LOCAL) as stream:
            server.process.send_signal(signal.SIGTERM)
            last = json.loads(events(stream)[-1])
        assert last["error"]["code"] == "unavailable"
        assert_ended_well(server)
        assert "HTTP/1.1" not in server.log


def test_ctrl_c_ends_it_and_a_second_one_does_not_wait(tiny_model: Path) -> None:
    body = {**LONG, "n": 128}
    with (
        server_process(tiny_model, "--drain-seconds", "1000") as server,
        httpx.stream("POST", f"{server.url}/v1/completions", json=body, **LOCAL),
    ):
        server.process.send_signal(signal.SIGINT)
        server.wait_for_log("Waiting for connections to close")
        server.process.send_signal(signal.SIGINT)
        assert_ended_well(server)
