"""`anaphora serve --api-server-count 2`: to clients one server, whichever front end answers and whatever crashes."""

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from anaphora.cli.main import run
from tests.patience import LOCAL, PATIENCE_S
from tests.server_process import ServerUnderTest, server_process

NUM_CONNECTIONS = 40
"""So many new connections all reach the same one of two front ends once in 2^39 times."""
LONG = {"prompt": [5], "max_tokens": 400, "ignore_eos": True, "stream": True}
PROMPT = list(range(100, 140))


def front_ends_of(server: ServerUnderTest) -> list[int]:
    """Process ids of the server's children."""
    tasks = Path(f"/proc/{server.process.pid}/task").iterdir()
    return [int(number) for task in tasks for number in (task / "children").read_text().split()]


def wait_until(condition: Callable[[], bool], server: ServerUnderTest) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, server.log
        time.sleep(0.01)


def is_alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # dead, and not collected yet


def metric(server: ServerUnderTest, name: str, **options: Any) -> float:
    """Of a scrape over a connection of its own."""
    text = httpx.get(f"{server.url}/metrics", **LOCAL, **options).text
    found = re.search(rf"^{re.escape(name)}{{[^}}]*}} (\S+)$", text, re.MULTILINE)
    assert found is not None, text
    return float(found[1])


def complete(server: ServerUnderTest, prompt: list[int], **fields: Any) -> Any:
    """An answer over a connection of its own."""
    response = httpx.post(f"{server.url}/v1/completions", json={"prompt": prompt, **fields}, **LOCAL)
    assert response.status_code == 200, response.text
    return response.json()


@pytest.fixture(scope="module")
def server(tiny_model: Path) -> Iterator[ServerUnderTest]:
    with server_process(tiny_model, "--api-server-count", "2", "--no-access-log") as server:
        assert len(front_ends_of(server)) == 2
        yield server


def test_every_front_end_serves_from_one_cache_and_tells_of_all(server: ServerUnderTest) -> None:
    before = metric(server, "vllm:time_to_first_token_seconds_count")
    answers = [complete(server, PROMPT, max_tokens=4, temperature=0) for _ in range(NUM_CONNECTIONS)]
    assert len({answer["choices"][0]["text"] for answer in answers}) == 1
    cached = [answer["usage"]["prompt_tokens_details"]["cached_tokens"] for answer in answers]
    assert cached == [0] + [32] * (NUM_CONNECTIONS - 1)
    for _ in range(10):
        assert metric(server, "vllm:time_to_first_token_seconds_count") == before + NUM_CONNECTIONS
        assert metric(server, "vllm:generation_tokens_total") == 4 * NUM_CONNECTIONS
    for answer in answers:
        account = httpx.get(f"{server.url}/cache/requests/{answer['id']}", **LOCAL).json()
        assert account["requests"][0]["prompt_tokens"] == 40
    assert httpx.get(f"{server.url}/cache/requests/none", **LOCAL).status_code == 404


def test_tenants_have_the_same_names_everywhere(server: ServerUnderTest) -> None:
    complete(server, PROMPT, cache_salt="secret")
    assert complete(server, PROMPT, cache_salt="other")["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    url = f"{server.url}/cache/tree"
    names = {node["tenant"] for _ in range(NUM_CONNECTIONS) for node in httpx.get(url, **LOCAL).json()["nodes"]}
    salted = sorted(name for name in names if ":salt-" in name)
    assert len(salted) == 2
    for _ in range(10):
        nodes = httpx.get(url, params={"tenant": salted[0]}, **LOCAL).json()["nodes"]
        assert {node["tenant"] for node in nodes} == {salted[0]}


def test_a_reset_through_one_is_a_reset_for_all(server: ServerUnderTest) -> None:
    complete(server, PROMPT)
    assert httpx.post(f"{server.url}/reset_prefix_cache", **LOCAL).json() == {"reset": True}
    cached = [complete(server, PROMPT)["usage"]["prompt_tokens_details"]["cached_tokens"] for _ in range(4)]
    assert cached == [0, 32, 32, 32]


def test_a_front_end_that_crashes_is_replaced_and_leaves_nothing_behind(server: ServerUnderTest) -> None:
    results: list[str] = []
    have_begun = threading.Barrier(NUM_CONNECTIONS + 1)

    def ask() -> None:
        try:
            with httpx.stream("POST", f"{server.url}/v1/completions", json=LONG, **LOCAL) as stream:
                chunks = stream.iter_bytes()
                next(chunks)
                have_begun.wait(PATIENCE_S)
                results.append("done" if b"[DONE]" in b"".join(chunks) else "cut")
        except httpx.HTTPError:
            results.append("broken")

    counted = metric(server, "vllm:time_to_first_token_seconds_count")
    threads = [threading.Thread(target=ask) for _ in range(NUM_CONNECTIONS)]
    for thread in threads:
        thread.start()
    have_begun.wait(PATIENCE_S)
    victim, survivor = front_ends_of(server)
    os.kill(victim, signal.SIGKILL)
    for thread in threads:
        thread.join(PATIENCE_S)
    assert set(results) == {"done", "broken"}
    wait_until(lambda: "ended by signal SIGKILL" in server.log and "a new one takes its place" in server.log, server)
    wait_until(lambda: len(front_ends_of(server)) == 2, server)
    assert survivor in front_ends_of(server)
    wait_until(lambda: metric(server, "vllm:num_requests_running") == 0, server)
    assert metric(server, "anaphora:kv_cache_free_blocks") == metric(server, "anaphora:kv_cache_blocks")
    assert metric(server, "vllm:time_to_first_token_seconds_count") >= counted + results.count("done")
    for _ in range(NUM_CONNECTIONS):  # those that wait at the new one's socket are served, too
        complete(server, PROMPT, max_tokens=1)
    assert "Traceback" not in server.log


def test_bad_ports_and_counts_are_told(server: ServerUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    port = server.url.rpartition(":")[2]
    for count in ("0", "2"):
        assert run(["serve", "/no/such/model", "--port", port, "--api-server-count", count]) == 2
        assert f"cannot listen on 127.0.0.1:{port}: Address already in use" in capsys.readouterr().err
    assert run(["serve", "--api-server-count", "-1"]) == 2
    assert "--api-server-count must be greater than or equal to 0, got '-1'" in capsys.readouterr().err


def test_sigterm_drains_all_and_the_request_log_is_one(tiny_model: Path, tmp_path: Path) -> None:
    log = tmp_path / "requests.jsonl"
    argv = ("--api-server-count", "2", "--request-log", str(log))
    with server_process(tiny_model, *argv, environment={"ANAPHORA_API_KEY": "s3cret"}) as server:
        headers = {"Authorization": "Bearer s3cret"}
        assert httpx.get(f"{server.url}/v1/models", **LOCAL).status_code == 401
        body = {**LONG, "n": 4}
        url = f"{server.url}/v1/completions"
        for _ in range(NUM_CONNECTIONS):
            short = {"prompt": PROMPT, "max_tokens": 1}
            assert httpx.post(url, json=short, headers=headers, **LOCAL).status_code == 200
        with httpx.stream("POST", url, json=body, headers=headers, **LOCAL) as stream:
            chunks = stream.iter_bytes()
            next(chunks)
            server.process.send_signal(signal.SIGTERM)
            assert b"[DONE]" in b"".join(chunks)
        assert server.wait() == 0, server.log
    assert "Traceback" not in server.log
    assert "s3cret" not in server.log + log.read_text()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["kind"] for row in rows] == ["server", *["served"] * (NUM_CONNECTIONS + 4)]
    assert len({tuple(row["block_digests"]) for row in rows[1 : NUM_CONNECTIONS + 1]}) == 1


def test_a_second_ctrl_c_does_not_wait(tiny_model: Path) -> None:
    body = {**LONG, "n": 64}
    with (
        server_process(tiny_model, "--api-server-count", "1", "--drain-seconds", "1000") as server,
        httpx.stream("POST", f"{server.url}/v1/completions", json=body, **LOCAL) as stream,
    ):
        chunks = stream.iter_bytes()
        next(chunks)
        server.process.send_signal(signal.SIGINT)
        server.wait_for_log("Waiting for connections to close")
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 0, server.log
        assert "Traceback" not in server.log


def test_when_the_engines_process_is_killed_streams_end_with_an_error_and_nothing_stays(tiny_model: Path) -> None:
    with server_process(tiny_model, "--api-server-count", "2") as server:
        children = front_ends_of(server)
        with httpx.stream("POST", f"{server.url}/v1/completions", json={**LONG, "n": 64}, **LOCAL) as stream:
            chunks = stream.iter_bytes()
            next(chunks)
            server.process.kill()
            last = b"".join(chunks).decode().split("\n\n")[-2]
        assert json.loads(last.removeprefix("data: "))["error"]["message"] == (
            "the engine has stopped: its process has gone"
        )
        wait_until(lambda: not any(map(is_alive, children)), server)
        assert server.wait() == -signal.SIGKILL
