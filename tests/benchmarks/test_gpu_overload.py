"""The overload program: its scenes on a tiny model, its client against bytes, and an audit that finds what is wrong."""

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu.overload import __main__ as overload
from benchmarks.gpu.overload.audit import Auditor, count_problems, read_metrics
from benchmarks.gpu.overload.client import Ask, Ending, Kind, ask_all
from benchmarks.gpu.overload.hog import GpuHog
from benchmarks.gpu.overload.mix import Mix
from benchmarks.gpu.overload.scenes import Stage, memory_problems
from tests.models_for_tests import tiny_checkpoint
from tests.models_for_tests.tiny_tokenizer import VOCAB_SIZE
from tests.server.live import MODEL, LiveServer, client_of, serving

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.config import EngineConfig
from anaphora.engine.model_runner import Computation, Runner
from anaphora.engine.startup import LoadedEngine, load_engine
from anaphora.scheduler.output import ScheduledRequest
from anaphora.types import RequestId

LIMIT_S = 60.0
LONG_TOKENS = 200
ASK = Ask(prompt=tuple(range(10, 50)), max_tokens=4)


class ScarceRunner:
    """A runner whose machine has no memory for long steps while the hog has it."""

    def __init__(self, runner: Runner, hog: "PretendedHog") -> None:
        self._runner = runner
        self._hog = hog

    def begin(
        self,
        scheduled: Sequence[ScheduledRequest],
        active: Mapping[RequestId, ActiveRequest],
        *,
        are_alone: bool = False,
    ) -> Computation:
        num_tokens = sum(item.num_new_tokens for item in scheduled)
        self._runner._model = Scarce(self._hog, num_tokens, self._runner._model)  # type: ignore[attr-defined]
        try:
            return self._runner.begin(scheduled, active, are_alone=are_alone)
        finally:
            self._runner._model = self._runner._model.model  # type: ignore[attr-defined]


class Scarce:
    """The model of one step."""

    def __init__(self, hog: "PretendedHog", num_tokens: int, model: Any) -> None:
        self.model = model
        self._is_too_long = hog.has_taken and num_tokens >= LONG_TOKENS

    def forward(self, *args: Any) -> Any:
        if self._is_too_long:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 4294967296 bytes.")
        return self.model.forward(*args)


class PretendedHog:
    has_taken = False

    def take(self) -> dict[str, Any]:
        self.has_taken = True
        return {"hog_bytes": 1}

    def give_back(self) -> None:
        self.has_taken = False


def mix() -> Mix:
    return Mix(VOCAB_SIZE, longest_prompt=60, longest_output=30, leaves_within_s=0.2, seed=1)


def port_of(server: LiveServer) -> int:
    return int(server.url.rpartition(":")[2])


def test_scenes_on_a_tiny_model_end_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out.json"
    words = [str(tiny_checkpoint(tmp_path / "tiny")), str(out), "--device", "cpu", "--requests", "24"]
    words += ["--blocks", "24", "--longest-prompt", "40", "--longest-output", "60", "--leaves-within-s", "0.2"]
    words += ["--front-ends", "2"]
    monkeypatch.setattr(sys, "argv", ["overload", *words])
    code = overload.main()
    record = json.loads(out.read_text())
    assert code == 0, record
    assert record["skipped"] == ["out of memory: needs a GPU, whose memory another process can take"]
    (server,) = record["servers"]
    full, leaving, crowd = server["scenes"]
    assert full["ended"] == {"answered": 24}
    assert sum(leaving["ended"].values()) == 24
    assert sum(crowd["ended"].values()) == 36
    assert full["same_as_alone"]["same"] > 0


def test_steps_without_memory_are_told_and_got_over(tmp_path: Path) -> None:
    """What on a GPU another process does, here a runner pretends; all else is the scene itself."""
    hog = PretendedHog()

    def load(config: EngineConfig, checkpoint: Any = None) -> LoadedEngine:
        loaded = load_engine(config, checkpoint)
        loaded.core._passes.runner = ScarceRunner(loaded.core.runner, hog)
        return loaded

    model = tiny_checkpoint(tmp_path / "tiny")
    with serving(model, load=load, num_gpu_blocks_override=64, max_num_batched_tokens=LONG_TOKENS + 20) as server:
        stage = Stage(port_of(server), MODEL, mix(), limit_s=LIMIT_S, are_texts_exact=True)
        outcome = stage.out_of_memory(hog, LONG_TOKENS)
        assert outcome.problems == []
        assert outcome.grown["failed_steps"] >= 6
        (how,) = outcome.notes["ended"]["long prompts"]
        assert how == "refused: 500 internal_error: the machine has no memory left for this step"
        hog.give_back = lambda: None  # type: ignore[method-assign]
        assert "after: " in stage.out_of_memory(hog, LONG_TOKENS).problems[0]


FAKE_TORCH = """
from types import SimpleNamespace
uint8 = 'uint8'
free = 1 << 30
class OutOfMemoryError(RuntimeError): pass
def empty(size, dtype, device):
    global free
    if size > 300 << 20:  # no piece so large in one
        raise OutOfMemoryError
    free -= size
    return SimpleNamespace(numel=lambda: size)
cuda = SimpleNamespace(mem_get_info=lambda: (free, 2 << 30))
"""


def test_the_hog_takes_all_but_what_it_is_to_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(FAKE_TORCH)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    hog = GpuHog(64 << 20)
    try:
        told = hog.take()
        hog.give_back()
    finally:
        hog.kill()
    assert told["hog_bytes"] + told["free_bytes"] == 1 << 30
    assert 64 << 20 <= told["free_bytes"] < 66 << 20


def test_what_a_held_block_and_a_wrong_answer_look_like(tmp_path: Path) -> None:
    with serving(tiny_checkpoint(tmp_path / "tiny"), num_gpu_blocks_override=64) as server:
        auditor = Auditor(port_of(server), MODEL, mix().references)
        before = auditor.metrics()
        assert auditor.audit(before, []) == []
        auditor.answers[0] += "?"
        assert auditor.audit(before, []) == [
            "requests finished: the server counts 6, the clients saw 0 to 0",
            "requests all: the server counts 6, the clients saw 0 to 0",
            "1 of 6 fresh requests are not answered as before",
        ]
        assert ask_all(port_of(server), MODEL, [ASK], LIMIT_S)[0].kind is Kind.ANSWERED
        pinned = {"id": "p", "prompt": list(ASK.prompt), "model": MODEL}
        assert server_post(server, "/cache/pins", pinned) == 200
        auditor.answers[0] = auditor.answers[0][:-1]
        assert auditor.audit(auditor.metrics(), []) == [
            "blocks are held: 62 of 64 are free",
            "1 nodes of the cache's tree have holders",
        ]


def server_post(server: LiveServer, path: str, body: object) -> int:
    with client_of(server) as client:
        return int(client.post(path, json=body).status_code)


HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: text/event-stream\r\n\r\n"


def chunk(message: object) -> bytes:
    data = b"data: " + (message if isinstance(message, bytes) else json.dumps(message).encode()) + b"\n\n"
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def told(finish_reason: str | None, text: str = "a") -> bytes:
    return chunk({"choices": [{"index": 0, "text": text, "finish_reason": finish_reason}], "usage": None})


USAGE = chunk({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 4}})
SHORT_USAGE = chunk({"choices": [], "usage": {"prompt_tokens": 40, "completion_tokens": 3}})
ERROR = {"error": {"message": "no: not now", "type": "server_error", "param": None, "code": "internal_error"}}
DONE, END = chunk(b"[DONE]"), b"0\r\n\r\n"
BAD = json.dumps(ERROR).encode()


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (HEAD + told(None) + told("length") + USAGE + DONE + END, "answered"),
        (HEAD + told(None) + told("length") + USAGE + DONE, "lost: the connection was closed"),
        (HEAD + told(None), "lost: the connection was closed"),
        (b"", "lost: the connection was closed"),
        (b"nonsense\r\n\r\n", "lost: HttpParserError"),
        (HEAD + told("length") + USAGE + END, "wrong: the stream has no [DONE]"),
        (HEAD + told("length") + SHORT_USAGE + DONE + END, "wrong: the usage does not count every token"),
        (HEAD + told("stop") + USAGE + DONE + END, "wrong: finish_reason stop"),
        (HEAD + told(None) + chunk(ERROR) + END, "failed: internal_error: no"),
        (b"HTTP/1.1 500 Oops\r\nContent-Length: %d\r\n\r\n%b" % (len(BAD), BAD), "refused: 500 internal_error: no"),
        (b"HTTP/1.1 502 Oops\r\nContent-Length: 4\r\n\r\noops", "wrong: status 502 without an error object"),
        (HEAD + told(None) + b"wait", "hanging"),
    ],
)
def test_every_end_has_its_name(answer: bytes, label: str) -> None:
    assert asyncio.run(ending_of(answer, ASK, limit_of(label))).label == label


@pytest.mark.parametrize(
    ("ask", "label"),
    [
        (replace(ASK, leaves_after_s=0.05), "left before the first token"),
        (replace(ASK, leaves_after_events=1), "hanging"),
    ],
)
def test_clients_leave_when_they_are_to(ask: Ask, label: str) -> None:
    assert asyncio.run(ending_of(HEAD + b"wait", ask, limit_of(label))).label == label


def test_a_client_that_leaves_midway_had_a_part() -> None:
    ending = asyncio.run(ending_of(HEAD + told(None) + b"wait", replace(ASK, leaves_after_events=1)))
    assert (ending.label, ending.num_events) == ("left midway", 1)


def limit_of(label: str) -> float:
    """What hangs is waited for in vain; everything else has its time."""
    return 0.3 if label == "hanging" else LIMIT_S


async def ending_of(answer: bytes, ask: Ask, limit_s: float = LIMIT_S) -> Ending:
    """What the client makes of a server that says this, and then closes, or waits if it says so."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"}}")
        writer.write(answer.removesuffix(b"wait"))
        await writer.drain()
        if answer.endswith(b"wait"):
            await reader.read()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        return (await asyncio.to_thread(ask_all, port, "m", [ask], limit_s))[0]


def counts(finished: int, aborted: int) -> dict[str, float]:
    names = (
        "vllm:num_preemptions_total",
        "anaphora:evicted_blocks_total",
        "anaphora:steps_total",
        "anaphora:failed_steps_total",
    )
    success = "vllm:request_success_total"
    return {
        **dict.fromkeys(names, 0.0),
        f"{success}:length": finished,
        f"{success}:stop": 0,
        f"{success}:abort": aborted,
    }


def test_who_left_may_have_been_served_or_not_have_come_in() -> None:
    endings = [
        *[Ending(Kind.ANSWERED)] * 5,
        *[Ending(Kind.FAILED, is_step_error=True)] * 2,
        *[Ending(Kind.LEFT, num_events=3)] * 2,
        Ending(Kind.LEFT),
        Ending(Kind.REFUSED, "503 unavailable"),
    ]
    before = counts(10, 10)
    for finished, aborted in ((5, 4), (7, 2), (5, 5), (8, 2), (6, 4)):
        assert count_problems(before, counts(10 + finished, 10 + aborted), endings) == []
    assert count_problems(before, counts(15, 13), endings) == [
        "requests all: the server counts 8, the clients saw 9 to 10"
    ]
    assert count_problems(before, counts(14, 15), endings) == [
        "requests finished: the server counts 4, the clients saw 5 to 8"
    ]


def test_metrics_are_read_with_their_reasons() -> None:
    text = '# HELP x y\nx{engine="0"} 2.0\nn_total{engine="0",finished_reason="stop"} 3.0\nz 1e3\n'
    assert read_metrics(text) == {"x": 2.0, "n_total:stop": 3.0, "z": 1000.0}


def test_a_step_error_of_another_kind_is_no_lack_of_memory() -> None:
    other = Ending(Kind.REFUSED, "500 internal_error", "the model failed", is_step_error=True)
    groups = {"long prompts": [other], "answers under way": [], "small requests": [other], "after": []}
    assert [problem.partition(":")[0] for problem in memory_problems(groups)] == ["long prompts", "small requests"]
