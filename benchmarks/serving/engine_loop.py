"""What the engine's own thread does for hits, one by one and 64 at once, and for decode steps of 64 streams.

    python -m benchmarks.serving.engine_loop --out benchmarks/results/serving/engine_loop.json

The worker, scheduler, cache core and GPU runner of a server, over a device that answers at once: what is left is the
host's work, as in a process whose front ends do the rest. No GPU, no model, no tokenizer: prompts are random ids.
Processor time of the thread, measured without the stages' stamps; then the stages, the least of each, by wall clock.
"""

import random
import statistics
import threading
import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.serving.instant_device import BLOCK_SIZE, load_instant_device
from benchmarks.serving.record import keep
from benchmarks.serving.stages import Place, Stages

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.remote.messages import Output, Outputs, encode
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.worker import EngineWorker
from anaphora.types import RequestId

LENGTHS = (4096, 30_000)
QUESTION_TOKENS = 28
NUM_STREAMS = 64
DECODE_TOKENS = 100
VOCAB_SIZE = 150_000
ROUNDS = 30
PASSES = 3
"""Over all scenarios: a machine that others use is slow for seconds at a time."""
PLACES: tuple[Place, ...] = (
    ("take in the request", "anaphora.engine.engine_core", "EngineCore.add"),
    ("look up", "anaphora.kvcache.manager", "KVCacheManager.match"),
    ("ledger", "anaphora.kvcache.manager", "KVCacheManager.explain"),
    ("ledger", "anaphora.kvcache.manager", "KVCacheManager.remember_prompt"),
    ("blocks", "anaphora.kvcache.manager", "KVCacheManager.admit"),
    ("schedule", "anaphora.scheduler.scheduler", "Scheduler.schedule"),
    ("runner", "anaphora.engine.gpu.runner", "GpuRunner.run"),
    ("runner", "anaphora.engine.gpu.runner", "GpuRunner.begin"),
    ("runner", "anaphora.engine.gpu.runner", "ComputingPass.tokens"),
    ("predict the next step", "anaphora.engine.gpu.runner", "predict"),
    ("flat batch", "anaphora.engine.gpu.runner", "flatten"),
    ("flat batch", "anaphora.engine.gpu.run_ahead", "one_token_each"),
    ("plan attention", "benchmarks.serving.instant_device", "InstantAttention.plan_spans"),
    ("pack and launch", "anaphora.engine.gpu.launcher", "PassLauncher.launch"),
    ("update", "anaphora.scheduler.scheduler", "Scheduler.update"),
    ("outputs", "anaphora.engine.engine_core", "EngineCore._outputs"),
    ("picture of now", "anaphora.engine.engine_core", "EngineCore.stats"),
)


class Loop:
    """A worker, and what its thread took between one step's outputs and the next."""

    def __init__(self) -> None:
        self.stages = Stages()
        self.steps: list[tuple[int, dict[str, int]]] = []
        """Of each: processor time in nanoseconds, and its stages."""
        self.outputs: list[list[CoreOutput]] = []
        self._last_ns = 0
        self._num_open = 0
        self._are_done = threading.Event()
        self._num_asked = 0
        self._worker = EngineWorker(lambda: load_instant_device(VOCAB_SIZE))
        self._worker.listen(on_outputs=self._take, on_end=lambda failure: None)
        self._worker.loaded.result()

    def ask(self, prompts: Sequence["array[int]"], max_tokens: int) -> None:
        """All at once, and wait until they are answered."""
        gate = threading.Event()
        self.steps.clear()
        self.outputs.clear()
        self._are_done.clear()
        self._num_open = len(prompts)
        self._worker.submit(lambda core: self._begin(gate))
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        for prompt in prompts:
            name = RequestId(f"chatcmpl-{self._num_asked}")
            self._num_asked += 1
            request = GenerationRequest(request_id=name, prompt_token_ids=prompt, params=params)
            self._worker.submit(adding(request))
        gate.set()
        self._are_done.wait()

    def stop(self) -> None:
        """End the thread."""
        self._worker.stop()
        self._worker.join()

    def _begin(self, gate: threading.Event) -> list[CoreOutput]:
        gate.wait()
        self.stages.take()
        self._last_ns = time.thread_time_ns()
        return []

    def _take(self, outputs: list[CoreOutput]) -> None:
        now_ns = time.thread_time_ns()
        self.steps.append((now_ns - self._last_ns, self.stages.take()))
        self.outputs.append(outputs)
        self._num_open -= sum(output.is_last for output in outputs)
        if self._num_open == 0:
            self._are_done.set()
        self._last_ns = time.thread_time_ns()


def adding(request: GenerationRequest) -> Callable[[Any], list[CoreOutput]]:
    def add(core: Any) -> list[CoreOutput]:
        core.add(request)
        return []

    return add


class Prompts:
    """Random ones that begin with the same tokens."""

    def __init__(self, length: int) -> None:
        self._rng = random.Random(length)
        self._shared = self._tokens(length - QUESTION_TOKENS)

    def some(self, count: int) -> list["array[int]"]:
        """``count`` new ones, whose last blocks fill at different steps."""
        return [self._shared + self._tokens(QUESTION_TOKENS + index % BLOCK_SIZE) for index in range(count)]

    def _tokens(self, count: int) -> "array[int]":
        return array("I", [self._rng.randrange(VOCAB_SIZE) for _ in range(count)])


def hits(loop: Loop, prompts: Prompts, rounds: int) -> list[tuple[int, dict[str, int]]]:
    """One request after the other, a sample each."""
    samples = []
    for prompt in prompts.some(rounds):
        loop.ask([prompt], 1)
        samples += loop.steps
    return samples


def waves(loop: Loop, prompts: Prompts, rounds: int) -> list[tuple[int, dict[str, int]]]:
    """Many requests for one step: a sample is a request's share."""
    samples = []
    for _ in range(max(2, rounds // 3)):
        loop.ask(prompts.some(NUM_STREAMS), 1)
        [(whole_ns, stages)] = loop.steps
        samples.append((whole_ns // NUM_STREAMS, {name: ns // NUM_STREAMS for name, ns in stages.items()}))
    return samples


def decodes(loop: Loop, prompts: Prompts, rounds: int) -> list[tuple[int, dict[str, int]]]:
    """Many streams: a sample is a step of all of them, but for the first ones and the last."""
    samples = []
    for _ in range(max(1, rounds // 10)):
        loop.ask(prompts.some(NUM_STREAMS), DECODE_TOKENS)
        samples += loop.steps[2:-2]
    return samples


SCENARIOS = {
    "a hit": (hits, LENGTHS),
    f"{NUM_STREAMS} hits in one step, each": (waves, LENGTHS),
    f"a decode step of {NUM_STREAMS}": (decodes, LENGTHS[:1]),
}


def measure(name: str, length: int, rounds: int) -> dict[str, Any]:
    """Milliseconds of one scenario."""
    measured, _ = SCENARIOS[name]
    loop, prompts = Loop(), Prompts(length)
    try:
        loop.ask(prompts.some(1), 1)
        measured(loop, prompts, 10)
        plain = [whole_ns for whole_ns, _ in measured(loop, prompts, rounds)]
        channel_ns = least_encoding_ns(loop.outputs[-2:][0])
        with loop.stages.on(PLACES):
            stages = [stages for _, stages in measured(loop, prompts, rounds)]
    finally:
        loop.stop()
    names = dict.fromkeys(stage for stage, _, _ in PLACES)
    return {
        "scenario": name,
        "length": length,
        "least_ms": _ms(min(plain)),
        "median_ms": _ms(statistics.median(plain)),
        "stages_least_ms": {stage: _ms(min(found.get(stage, 0) for found in stages)) for stage in names},
        "event_loop_encoding_ms": _ms(channel_ns),
    }


def all_rows(rounds: int) -> list[dict[str, Any]]:
    """Every scenario once."""
    return [measure(name, length, rounds) for name, (_, lengths) in SCENARIOS.items() for length in lengths]


def merged(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The same scenario several times: the least of all, and the median of the medians."""
    stages = [row["stages_least_ms"] for row in rows]
    return {
        **rows[0],
        "least_ms": min(row["least_ms"] for row in rows),
        "median_ms": statistics.median(row["median_ms"] for row in rows),
        "stages_least_ms": {name: min(found[name] for found in stages) for name in stages[0]},
        "event_loop_encoding_ms": min(row["event_loop_encoding_ms"] for row in rows),
    }


def least_encoding_ns(outputs: Sequence[CoreOutput]) -> int:
    """What the event loop's thread takes to encode a step's outputs for one front end."""

    def once() -> int:
        started_ns = time.thread_time_ns()
        encode(Outputs([Output.of(output, with_ledger=len(outputs) == 1) for output in outputs]))
        return time.thread_time_ns() - started_ns

    return min(once() for _ in range(50))


def _ms(ns: float) -> float:
    return round(ns / 1e6, 4)


def several_passes(rounds: int) -> dict[str, Any]:
    """The least of all passes over all scenarios."""
    return {"rows": [merged(rows) for rows in zip(*(all_rows(rounds) for _ in range(PASSES)), strict=True)]}


def main() -> None:
    """See the module."""
    keep("benchmarks.serving.engine_loop", __doc__, ROUNDS, several_passes)


if __name__ == "__main__":
    main()
