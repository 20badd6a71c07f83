"""Many clients on one prefix, through the engine's loop over a device that takes as long as an H200 would.

    python -m benchmarks.serving.waves --out benchmarks/results/serving/waves.json

64 requests with 4k cached tokens arrive within 20 ms and get 128 tokens each. Two arms in turns: the next pass is begun
before the host knows the results of the one before, or only when it has taken them in. No GPU: the host's work is as
ever, and a pass is over when the passes before it are and the time that its tokens take has gone by (``PASS_MS``).
"""

import statistics
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from benchmarks.serving.engine_loop import VOCAB_SIZE, Prompts, adding
from benchmarks.serving.instant_device import load_instant_device
from benchmarks.serving.record import keep

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.gpu.flat_batch import FlatBatch
from anaphora.engine.gpu.launcher import Draw, Launched, PassLauncher
from anaphora.engine.gpu.runner import ComputingPass
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.worker import EngineWorker
from anaphora.scheduler.config import DEFAULT_TARGET_PREFILL_TOKENS
from anaphora.types import RequestId

NUM_CLIENTS, LENGTH, OUTPUT = 64, 4096, 128
ARRIVE_WITHIN_S = 0.02
ROUNDS = 10
PASS_MS = {1: 4.1, 32: 4.96, 64: 5.2, 256: 8.7, 512: 14.9, 1024: 27.5, 2048: 54.0}
"""By tokens, between which it is linear: Qwen2.5-7B's sizes in bfloat16 behind 4k cached tokens, on an H200, whose
records were not kept."""
ARMS = {"one pass at a time": False, "the next pass begun before": True}


@dataclass(frozen=True, slots=True)
class Due:
    """In a CUDA event's place: what is waited for comes at ``at_s``."""

    at_s: float

    def synchronize(self) -> None:
        """Wait until then."""
        time.sleep(max(0.0, self.at_s - time.perf_counter()))


class TimedLauncher(PassLauncher):
    """Passes that take their time, one after another."""

    free_s = 0.0
    """When all that was launched is over."""
    idle_s = 0.0

    def launch(self, batch: FlatBatch, draws: Sequence[Draw] = ()) -> Launched:
        """See the base class."""
        launched = super().launch(batch, draws)
        now_s = time.perf_counter()
        self.idle_s += max(0.0, now_s - self.free_s)
        took_ms = float(np.interp(batch.num_tokens, list(PASS_MS), list(PASS_MS.values())))
        self.free_s = max(now_s, self.free_s) + took_ms / 1000
        due: Any = Due(self.free_s)
        return replace(launched, _event=due)


class Burst:
    """An engine in a thread of its own, and what came out of it."""

    def __init__(self) -> None:
        self.first_s: dict[str, float] = {}
        self._num_open = 0
        self._num_asked = 0
        self._are_done = threading.Event()
        load = partial(load_instant_device, VOCAB_SIZE, target_prefill_tokens=DEFAULT_TARGET_PREFILL_TOKENS)
        self._worker = EngineWorker(partial(load, launcher_type=TimedLauncher))
        self._worker.listen(on_outputs=self._take, on_end=lambda failure: None)
        runner: Any = self._worker.loaded.result().core.runner
        self.device: TimedLauncher = runner._launcher

    def ask(self, prompts: Sequence[Any], max_tokens: int, within_s: float) -> dict[str, float]:
        """All, spread over so many seconds. Milliseconds since the first."""
        self.first_s.clear()
        self._are_done.clear()
        self._num_open = len(prompts)
        params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
        began_s = time.perf_counter()
        sent_s: dict[str, float] = {}
        self.device.free_s, self.device.idle_s = began_s, 0.0
        for index, prompt in enumerate(prompts):
            time.sleep(max(0.0, began_s + within_s * index / len(prompts) - time.perf_counter()))
            name = RequestId(f"chatcmpl-{self._num_asked}")
            self._num_asked += 1
            sent_s[name] = time.perf_counter()
            self._worker.submit(adding(GenerationRequest(request_id=name, prompt_token_ids=prompt, params=params)))
        self._are_done.wait()
        ttft = sorted(1000 * (at_s - sent_s[name]) for name, at_s in self.first_s.items())
        return {
            "ttft_median_ms": round(statistics.median(ttft), 2),
            "ttft_last_ms": round(ttft[-1], 2),
            "total_ms": round(1000 * (time.perf_counter() - began_s), 2),
            "device_idle_ms": round(1000 * self.device.idle_s, 2),
        }

    def stop(self) -> None:
        """End the thread."""
        self._worker.stop()
        self._worker.join()

    def _take(self, outputs: list[CoreOutput]) -> None:
        now_s = time.perf_counter()
        for output in outputs:
            if output.token_id is not None:
                self.first_s.setdefault(output.request_id, now_s)
            self._num_open -= output.is_last
        if self._num_open == 0:
            self._are_done.set()


def measure(rounds: int) -> list[dict[str, Any]]:
    """Both arms in turns, each round with new questions."""
    burst, prompts = Burst(), Prompts(LENGTH)
    followed: Any = ComputingPass.may_be_followed
    found: dict[str, list[dict[str, float]]] = {arm: [] for arm in ARMS}
    try:
        burst.ask(prompts.some(1), 1, 0.0)
        for number in range(rounds + 1):
            for arm, may_be_followed in ARMS.items():
                _replace(followed if may_be_followed else property(lambda self: False))
                row = burst.ask(prompts.some(NUM_CLIENTS), OUTPUT, ARRIVE_WITHIN_S)
                if number:  # the first is for warming up
                    found[arm].append(row)
    finally:
        _replace(followed)
        burst.stop()
    return [{"arm": arm, "rounds": rows} for arm, rows in found.items()]


def _replace(may_be_followed: Any) -> None:
    owner: Any = ComputingPass
    owner.may_be_followed = may_be_followed


def main() -> None:
    """See the module."""
    facts = {"clients": NUM_CLIENTS, "cached_tokens": LENGTH, "output_tokens": OUTPUT, "pass_ms": PASS_MS}
    keep("benchmarks.serving.waves", __doc__, ROUNDS, lambda rounds: {**facts, "arms": measure(rounds)})


if __name__ == "__main__":
    main()
