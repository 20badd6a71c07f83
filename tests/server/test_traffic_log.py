"""The request log: what it holds and hides, that nobody waits for it, and that a replay of it is what was measured."""

import asyncio
import io
import json
import logging
import stat
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from anaphora.cli import main as cli
from anaphora.engine import EngineConfig, GenerationRequest
from anaphora.errors import ConfigError, EngineStepError
from anaphora.server.backend import Backend
from anaphora.server.logged_backend import LoggedBackend
from anaphora.server.traffic_log import TrafficLog, open_log_file
from anaphora.server.traffic_rows import Content, RowMaker
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace, RequestId
from tests.patience import PATIENCE_S
from tests.server.live import MODEL, LiveServer, client_of, serving
from tests.server.scripted_backend import ScriptedBackend

PROMPT = tuple(range(3, 43))


@pytest.fixture
def backend(tiny_model: Path) -> ScriptedBackend:
    config = EngineConfig(block_size=16, max_num_batched_tokens=300)
    return ScriptedBackend(Tokenizer.from_folder(tiny_model), config=config)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def request(name: str, prompt: tuple[int, ...] = PROMPT, namespace: str = "") -> GenerationRequest:
    return GenerationRequest(
        request_id=RequestId(name), prompt_token_ids=prompt, namespace=Namespace(namespace), lookup=True
    )


async def read(outputs: AsyncGenerator[Any, None], *, limit: int | None = None) -> None:
    async with aclosing(outputs):
        count = 0
        async for _ in outputs:
            count += 1
            if count == limit:
                return


def new_log(file: IO[str], backend: Backend, content: Content = "digests", **options: Any) -> TrafficLog:
    """The log of a start at this moment."""
    log = TrafficLog(file, RowMaker.now(content, backend.config.block_size), **options)
    log.note_start(backend)
    return log


def logged(
    path: Path, backend: ScriptedBackend, requests: list[GenerationRequest], content: Content = "digests"
) -> None:
    log = new_log(open_log_file(path), backend, content)
    in_front = LoggedBackend(backend, log)
    for one in requests:
        asyncio.run(read(in_front.generate(one)))
    log.close()


def test_a_start_and_a_request(tmp_path: Path, backend: ScriptedBackend) -> None:
    path = tmp_path / "log.jsonl"
    logged(path, backend, [request("one", namespace="key:secret")], "token-ids")
    start, served = rows_of(path)
    assert (start["kind"], start["content"], start["num_blocks"], start["block_size"]) == ("server", "token-ids", 8, 16)
    assert (start["eviction_policy"], start["max_num_batched_tokens"]) == (EngineConfig().eviction_policy, 300)
    assert start["target_prefill_tokens"] == EngineConfig().target_prefill_tokens == 512
    assert served["prompt_token_ids"] == list(PROMPT)
    assert served["output_token_ids"] == [3, 4]
    assert served["ledger"] == {"new": 40}
    assert (served["prompt_tokens"], served["output_tokens"], served["finish_reason"]) == (40, 2, "length")
    assert start["started_s"] <= served["arrival_s"]
    assert served["lookup"] is True
    assert served["queue_s"] == served["ttft_s"] == 0 <= served["e2e_s"]
    assert "secret" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_digests_tell_equal_beginnings_and_nothing_else(tmp_path: Path, backend: ScriptedBackend) -> None:
    path = tmp_path / "log.jsonl"
    other, shifted = (*PROMPT[:16], *range(100, 124)), (9, *PROMPT[:39])
    logged(path, backend, [request("a"), request("b", other), request("c", shifted), request("d", namespace="salt:1")])
    logged(path, backend, [request("a")])
    start, a, b, c, d, second_start, again = rows_of(path)
    assert start["kind"] == second_start["kind"] == "server"
    digests = [row["block_digests"] for row in (a, b, c, d, again)]
    assert [len(own) for own in digests] == [2] * 5
    assert digests[0][0] == digests[1][0]
    assert digests[0][1] != digests[1][1]
    assert not set(digests[0]) & set(digests[2])
    assert digests[0] == digests[3], "tenants differ by name only: the operator sees what they have in common"
    assert a["tenant"] == "" != d["tenant"]
    assert not set(digests[0]) & set(digests[4]), "a new start has a new secret"
    assert all(len(digest) == 16 for own in digests for digest in own)
    assert not any("token_ids" in name for row in (a, b, c, d) for name in row)


def test_an_answers_full_blocks_have_digests_but_for_its_last_token(tmp_path: Path, backend: ScriptedBackend) -> None:
    backend.script = ["x"] * 9  # 40 prompt tokens and 8 that are computed make 3 blocks
    logged(tmp_path / "nine.jsonl", backend, [request("a")])
    backend.script = ["x"] * 8
    logged(tmp_path / "eight.jsonl", backend, [request("a")])
    assert [len(rows_of(tmp_path / f"{name}.jsonl")[1]["block_digests"]) for name in ("nine", "eight")] == [3, 2]


def test_who_goes_early_is_logged_and_who_got_nothing_is_not(tmp_path: Path, backend: ScriptedBackend) -> None:
    path = tmp_path / "log.jsonl"
    log = new_log(open_log_file(path), backend)
    in_front = LoggedBackend(backend, log)
    asyncio.run(read(in_front.generate(request("left")), limit=1))
    backend.script = [EngineStepError("the model failed")]
    with pytest.raises(EngineStepError):
        asyncio.run(read(in_front.generate(request("failed"))))
    backend.refusal = EngineStepError("no")
    with pytest.raises(EngineStepError):
        in_front.generate(request("refused"))
    for resets in (True, False):
        backend.resets = resets
        assert asyncio.run(in_front.reset_prefix_cache()) is resets
    log.close()
    _, left, reset = rows_of(path)
    assert (left["finish_reason"], left["output_tokens"], left["e2e_s"]) == ("abort", 1, None)
    assert reset == {"kind": "reset"}


def test_in_front_of_the_engine_it_is_the_engine(backend: ScriptedBackend) -> None:
    log = new_log(io.StringIO(), backend)
    in_front: Backend = LoggedBackend(backend, log)
    for name in ("tokenizer", "config", "max_model_len", "kv_capacity", "device_bytes", "is_healthy", "cache"):
        assert getattr(in_front, name) is getattr(backend, name)
    assert asyncio.run(in_front.fetch_stats()) is backend.current
    log.close()


class SlowFile(io.StringIO):
    """Writes when it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.may_write = threading.Event()
        self.is_writing = threading.Event()
        self.text = ""

    def write(self, text: str) -> int:
        self.is_writing.set()
        assert self.may_write.wait(PATIENCE_S)
        self.text += text
        return len(text)


def test_what_comes_faster_than_it_is_written_is_counted(backend: ScriptedBackend) -> None:
    file = SlowFile()
    log = new_log(file, backend, max_unwritten=2)
    assert file.is_writing.wait(PATIENCE_S)
    for _ in range(5):  # two wait, three are lost; nobody was kept waiting
        log.note_reset()
    file.may_write.set()
    while file.text.count("reset") != 2:
        threading.Event().wait(0.01)
    log.note_reset()
    log.close()
    kinds = [json.loads(line) for line in file.text.splitlines()]
    assert [row["kind"] for row in kinds] == ["server", "reset", "reset", "lost", "reset"]
    assert kinds[3]["count"] == 3


class FullDisk(io.StringIO):
    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


def test_a_failed_write_is_told_once_and_stops_nothing(
    backend: ScriptedBackend, caplog: pytest.LogCaptureFixture
) -> None:
    log = new_log(FullDisk(), backend)
    in_front = LoggedBackend(backend, log)
    with caplog.at_level(logging.ERROR):
        for name in ("a", "b", "c"):
            asyncio.run(read(in_front.generate(request(name))))
        log.close()
        asyncio.run(read(in_front.generate(request("d"))))
    assert [record.getMessage() for record in caplog.records] == [
        "cannot write the request log: requests are served, but no longer logged"
    ]


def test_files_that_cannot_be_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("dear diary")
    with pytest.raises(ConfigError, match="holds something else"):
        open_log_file(other)
    assert other.read_text() == "dear diary"
    with pytest.raises(ConfigError, match="cannot write the request log"):
        open_log_file(tmp_path / "missing" / "log.jsonl")
    assert cli.run(["serve", "--port", "0", "--request-log", str(other)]) == 2
    assert "holds something else: name another file" in capsys.readouterr().err


# -- a replay of a log is what the server measured ---------------------------------------------------------------------

NUM_BLOCKS = 14
TARGET = 24


@contextmanager
def logging_server(model: Path, path: Path, content: Content, policy: str) -> Iterator[LiveServer]:
    """A server with a small cache; its log is complete when this ends."""
    logs: list[TrafficLog] = []

    def wrap(backend: Backend) -> Backend:
        logs.append(new_log(open_log_file(path), backend, content))
        return LoggedBackend(backend, logs[0])

    with serving(
        model, wrap=wrap, num_gpu_blocks_override=NUM_BLOCKS, eviction_policy=policy, target_prefill_tokens=TARGET
    ) as server:
        yield server
    logs[0].close()


def converse(client: httpx.Client, num_turns: int) -> None:
    """Shared beginnings, conversations that go on with what was generated, two tenants, and a scored prompt."""

    def complete(prompt: list[int], **fields: Any) -> list[int]:
        body = {"model": MODEL, "prompt": prompt, "max_tokens": 12, "temperature": 0, "ignore_eos": True, **fields}
        answer = client.post("/v1/completions", json={**body, "return_token_ids": False, "logprobs": 0})
        assert answer.status_code == 200, answer.text
        text = answer.json()["choices"][0]["text"]
        ids: list[int] = client.post(
            "/tokenize", json={"model": MODEL, "prompt": text, "add_special_tokens": False}
        ).json()["tokens"]
        return ids

    for turn in range(num_turns):
        system = [10 + turn % 3] * 20
        prompt = [*system, *range(50, 60 + turn)]
        answer = complete(prompt)
        complete([*prompt, *answer, 7, 8, 9], cache_salt="tenant" if turn % 4 == 3 else None)
        if turn == 5:
            complete(prompt, echo=True)


@pytest.mark.parametrize("content", ["digests", "token-ids"])
@pytest.mark.parametrize("policy", ["lru", "return-rate"])
def test_a_replay_at_the_same_memory_has_the_rate_that_the_server_measured(
    tmp_path: Path, tiny_model: Path, content: Content, policy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    with (
        logging_server(tiny_model, path, content, policy) as server,
        client_of(server) as client,
    ):
        converse(client, 12)
        stats = server.backend.stats()
    assert stats.num_evicted_blocks > 0 < stats.num_cached_tokens
    capsys.readouterr()
    quick = tmp_path / "quick.json"
    quick.write_text('{"step_ms": 0.001}')  # so quick that no two requests overlap, as none did
    assert cli.run(["simulate", str(path), "--capacity", "1x,4x", "--latency", str(quick), "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    served, (run, larger) = results["trace"]["served_by"], results["runs"]
    assert (run["policy"], run["capacity_blocks"], run["block_size"]) == (policy, NUM_BLOCKS, 16)
    assert run["cached_tokens"] == served["cached_tokens"] == stats.num_cached_tokens
    assert run["prompt_tokens"] == served["prompt_tokens"] == stats.num_prompt_tokens
    assert run["evicted_blocks"] == stats.num_evicted_blocks
    assert served["num_tokens_by_reason"] == {reason.value: num for reason, num in stats.tokens_by_reason.items()}
    assert {name: num for name, num in run["ledger"].items() if num} == served["num_tokens_by_reason"]
    assert larger["cached_tokens"] > run["cached_tokens"]
    assert {name: num for name, num in run["timing"]["on"]["ledger"].items() if num} == served["num_tokens_by_reason"]
    limits = EngineConfig()
    assert results["latency"]["max_num_seqs"] == limits.max_num_seqs
    assert results["latency"]["max_num_batched_tokens"] == 2048
    assert results["latency"]["target_prefill_tokens"] == served["target_prefill_tokens"] == TARGET


def test_a_reset_and_a_new_start_are_new_beginnings(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.jsonl"
    measured = 0
    for _ in range(2):
        with (
            logging_server(tiny_model, path, "digests", "lru") as server,
            client_of(server) as client,
        ):
            converse(client, 5)
            assert client.post("/reset_prefix_cache").status_code == 200
            converse(client, 5)
            measured += server.backend.stats().num_cached_tokens
    capsys.readouterr()
    assert cli.run(["simulate", str(path), "--capacity", "1x", "--json"]) == 0
    results = json.loads(capsys.readouterr().out)
    assert results["runs"][0]["cached_tokens"] == results["trace"]["served_by"]["cached_tokens"] == measured
    assert [(one["kind"], one["count"]) for one in results["trace"]["findings"]] == [("emptied", 3)]
    assert cli.run(["simulate", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"served with {NUM_BLOCKS} blocks, policy lru" in shown
