"""Cold prompts, and 64 streams behind one document, in the engine's own loop: versions of the engine by turns.

    python -m benchmarks.gpu.passes MODEL OUT.json [--tree NAME=FOLDER ...] [--rounds N]

A tree is a checkout; without any, this one. Each is loaded in a process of its own, again in every round, with random
weights. No HTTP and no tokenizer: what is compared is the host's launches and the device's work. ``host_ms``: until all
of a cold prompt's pass was launched, which hides behind the device's work as long as it is less.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from anaphora.engine.config import EngineConfig
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.startup import load_engine
from anaphora.types import RequestId

COLD_LENGTHS = (1337, 3961, 8000)
SHARED_LENGTHS = (4060, 29_990)
NUM_COLDS, NUM_WAVES, NUM_STREAMS, QUESTION, OUTPUT = 9, 3, 64, 20, 64
VOCABULARY = 150_000
BLOCKS = 20_000


class Loop:
    """An engine, and how long it takes."""

    def __init__(self, core: Any) -> None:
        """``core``: an ``EngineCore`` over a device."""
        self._core = core
        self._rng = random.Random(1)
        self._launching_s: list[float] = []
        model = core.runner._launcher._model
        model.forward = self._timed(model.forward)

    def colds(self, length: int) -> dict[str, float]:
        """Prompts that nobody sent before, one after the other."""
        prompts = [[self._draw(length)] for _ in range(NUM_COLDS + 1)]
        steps(self._core, prompts[0], 1)
        self._launching_s.clear()
        taken = [steps(self._core, prompt, 1)[-1] for prompt in prompts[1:]]
        return {"median_ms": _ms(taken), "least_ms": _ms([min(taken)]), "host_ms": _ms(self._launching_s)}

    def streams(self, length: int) -> dict[str, float]:
        """Many at once, who share a document that is cached: all of it, and one of the decode steps."""
        document = self._draw(length)
        waves = [
            steps(self._core, [document + self._draw(QUESTION) for _ in range(NUM_STREAMS)], OUTPUT)
            for _ in range(NUM_WAVES + 1)
        ][1:]
        decodes = [after - before for wave in waves for before, after in pairwise(wave[-50:-5])]
        return {"decode_step_ms": _ms(decodes), "all_ms": _ms([wave[-1] for wave in waves])}

    def _draw(self, length: int) -> list[int]:
        return [self._rng.randrange(VOCABULARY) for _ in range(length)]

    def _timed(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            started_s = time.perf_counter()
            try:
                return forward(*args, **kwargs)
            finally:
                self._launching_s.append(time.perf_counter() - started_s)

        return timed


def steps(core: Any, prompts: Sequence[Sequence[int]], max_tokens: int) -> list[float]:
    """Seconds from the first of some requests, which come together, to the end of each of their steps."""
    params = SamplingParams(max_tokens=max_tokens, temperature=0.0, ignore_eos=True)
    started_s, ends = time.perf_counter(), []
    for index, prompt in enumerate(prompts):
        request_id = RequestId(f"r{index}")
        core.add(GenerationRequest(request_id=request_id, prompt_token_ids=prompt, params=params))
    while core.step() is not None:
        ends.append(time.perf_counter() - started_s)
    return ends


def _ms(seconds: Sequence[float]) -> float:
    return round(1000 * statistics.median(seconds), 3)


def measure(model: str) -> dict[str, Any]:
    """One engine, by the anaphora that is imported here."""
    config = EngineConfig(
        model=model, load_format="dummy", device="cuda", num_gpu_blocks_override=BLOCKS, max_model_len=32768
    )
    loop = Loop(load_engine(config).core)
    return {
        "cold": {str(length): loop.colds(length) for length in COLD_LENGTHS},
        "streams": {str(length): loop.streams(length) for length in SHARED_LENGTHS},
    }


def in_turns(model: str, trees: dict[str, Path], rounds: int) -> list[dict[str, Any]]:
    """Each tree once a round, in a process of its own."""
    found = []
    for number in range(rounds):
        for name, tree in trees.items():
            paths = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
            command = [sys.executable, __file__, model, "--this"]
            done = subprocess.run(
                command, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)}, stdout=subprocess.PIPE, check=True
            )
            found.append({"tree": name, "round": number, **json.loads(done.stdout.splitlines()[-1])})
            print(json.dumps(found[-1]), flush=True)
    return found


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--tree", action="append", default=[], help="NAME=FOLDER; again for more, the earliest first")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--this", action="store_true", help="measure once, here, and print what was found")
    options = parser.parse_args()
    if options.this:
        print(json.dumps(measure(options.model)))
        return
    if options.out is None:
        parser.error("say where the results go: MODEL OUT.json")
    trees = {name: Path(folder) for name, _, folder in (text.partition("=") for text in options.tree)}
    trees = trees or {"this": Path(__file__).parents[2]}
    rows = in_turns(options.model, trees, options.rounds)
    options.out.write_text(json.dumps({"trees": list(trees), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
