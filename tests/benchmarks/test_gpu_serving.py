"""The GPU comparison: what the client reads from bytes, and what becomes of samples."""

import json
import socket
import threading
from pathlib import Path
from typing import Any

import pytest
from benchmarks.cpu.sample import Sample, read_samples
from benchmarks.gpu.serving.burst import burst
from benchmarks.gpu.serving.client import Answer, Client, Reply, RequestFailedError, read_reply
from benchmarks.gpu.serving.rows import ROWS, summarise
from benchmarks.gpu.serving.table import render

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "h200"
HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"
USAGE = {"prompt_tokens": 40, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 32}}


def event(message: object) -> bytes:
    """One chunk of the transfer with one event."""
    data = b"data: " + (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def delta(finish_reason: str | None = None, **fields: Any) -> bytes:
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": finish_reason}]})


END = event({"choices": [], "usage": USAGE}) + event(b"[DONE]") + b"0\r\n\r\n"


def test_tokens_are_stamped_by_the_bytes_that_complete_them() -> None:
    first = delta(role="assistant", content="") + delta(content="a")
    second = delta(content="b")
    arrivals = [
        (1.0, HEAD + first[:-3]),  # the first text is not whole yet
        (2.0, first[-3:] + second[:5]),
        (3.0, second[5:] + delta("length", content="c") + END),
    ]
    reply = read_reply(0.5, arrivals)
    assert (reply.first_token_s, reply.last_token_s, reply.done_s) == (2.0, 3.0, 3.0)
    assert reply.ttft_ms == 1500.0
    assert reply.tpot_ms == 500.0
    assert (reply.num_prompt_tokens, reply.num_output_tokens, reply.num_cached_tokens) == (40, 3, 32)


def test_tokens_without_text_are_stamped_by_the_end() -> None:
    reply = read_reply(0.0, [(1.0, HEAD[:9]), (2.0, HEAD[9:] + delta("length") + END)])
    assert reply.first_token_s == 2.0


@pytest.mark.parametrize("body", [event({"error": {"message": "no"}}), delta(content="a") + b"0\r\n\r\n", b"0\r\n\r\n"])
def test_what_is_no_answer(body: bytes) -> None:
    with pytest.raises(RequestFailedError):
        read_reply(0.0, [(1.0, HEAD + body)])


def serve(listener: socket.socket, num_connections: int, num_answers: int) -> None:
    """Answer ``num_answers`` requests on each of so many connections, one token each."""

    def answer(connection: socket.socket) -> None:
        with connection:
            for _ in range(num_answers):
                data = b""
                while not data.endswith(b"}}"):  # of stream_options, which come last
                    data += connection.recv(1 << 16)
                connection.sendall(HEAD + delta("length", content="a") + END)

    threads = [threading.Thread(target=answer, args=(listener.accept()[0],)) for _ in range(num_connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_clients_at_once_read_nothing_before_all_have_their_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who reads keeps the others of its process from stamping what arrives."""
    done: list[str] = []
    send, read = Client.send, Answer.read

    def noted_send(client: Client, request: bytes) -> Answer:
        answer = send(client, request)
        done.append("answered")
        return answer

    def noted_read(answer: Answer) -> Reply:
        done.append("read")
        return read(answer)

    monkeypatch.setattr(Client, "send", noted_send)
    monkeypatch.setattr(Answer, "read", noted_read)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=serve, args=(listener, 3, 2))
        server.start()
        replies = burst(listener.getsockname()[1], "m", "system", ["a", "b", "c"], max_tokens=3)
        server.join()
    assert [reply.num_prompt_tokens for reply in replies] == [40, 40, 40]
    assert sorted(done[:6]) == 3 * ["answered"] + 3 * ["read"]  # each connection's first request
    assert done[6:] == 3 * ["answered"] + 3 * ["read"]


def samples() -> list[Sample]:
    made = []
    for server, factor in (("ours", 1.0), ("vllm_rust", 3.0)):
        for length, ms in ((353, 5.0), (3961, 6.0)):
            detail = {"num_cached_tokens": length - 17}
            for extra in (0.0, 1.0, 50.0):
                made.append(
                    Sample(
                        measure="hit_ttft_ms", server=server, value=factor * (ms + extra), length=length, detail=detail
                    )
                )
        made.append(Sample(measure="cold_ttft_ms", server=server, value=90.0 + factor, length=3961))
        made += [Sample(measure="ready_s", server=server, value=10.0 * factor + n) for n in range(2)]
    return made


def test_rows_follow_from_samples() -> None:
    summary = summarise(samples(), {"run": "r"}, "r/raw.jsonl")
    rows = {row["name"]: row for row in summary["rows"]}
    assert len(rows) == len(ROWS)
    hit = rows["hit, 353 tokens"]
    assert (hit["ours"], hit["vllm_default"], hit["vllm_rust"], hit["aim"], hit["met"]) == (6.0, None, 18.0, 7.0, True)
    assert hit["samples"]["where"] == {"measure": "hit_ttft_ms", "length": 353}
    assert rows["hit slope"]["ours"] == pytest.approx(1000 / 3608, abs=1e-4)
    cold = rows["cold, 3961 tokens"]
    assert cold["aim"] == pytest.approx(0.97 * 93.0)
    assert cold["met"] is False
    assert (rows["start to ready, first start"]["ours"], rows["start to ready, second start"]["ours"]) == (10.0, 11.0)
    assert rows["TPOT, 1 stream, 4k context"]["met"] is None


def test_the_table_shows_every_row_and_what_failed() -> None:
    run = {
        "run": "r",
        "hardware": "a GPU",
        "versions": {"ours": "1"},
        "commands": {"ours": "serve"},
        "notes": ["FAILED"],
    }
    page = render(summarise(samples(), run, "r/raw.jsonl"))
    assert "- FAILED" in page
    assert "| hit, 353 tokens | ms | 6 | – | 18 | 7 (at most 7) | yes |" in page
    assert page.count("\n| ") == 1 + len(ROWS) + 1


def test_the_kept_summary_follows_from_the_kept_samples() -> None:
    for run in sorted(RESULTS.glob("*/run.json")):
        summary = json.loads((RESULTS / "summary.json").read_text("utf-8"))
        known = json.loads(run.read_text("utf-8"))
        if known["run"] == summary["run"]:
            made = summarise(read_samples(run.parent / "raw.jsonl"), known, f"{run.parent.name}/raw.jsonl")
            assert made == summary
            assert render(made) == (RESULTS / "table.md").read_text("utf-8")
            return
    pytest.fail("the run of summary.json is not kept")
