"""Out of memory, clients that go away, and a full KV cache at 512 requests: is each request told its end, does the
server get over it, and is every block free again?

    python -m benchmarks.gpu.overload MODEL_FOLDER OUT.json
    python -m benchmarks.gpu.overload MODEL_FOLDER OUT.json --device cpu --requests 48 --blocks 64 --front-ends 0

MODEL_FOLDER has ``config.json`` and the tokenizer; weights are random. Servers are started one after the other, in one
process and with front ends. On each: all requests at once, the same with half of the clients leaving, and then half as
many again, which is more than the server takes. On the first one before that, on a GPU only, steps that find no memory,
since another process has taken all that is left of it.

After each scene the server is audited: idle, no block held, its counts those of the clients, known questions answered
as before. Servers with front ends run with ``--deterministic``: there, and on a CPU, known questions must be answered
alike in the midst of the load. Exit code 1 if anything is not as it should be; OUT.json says what.
"""

import argparse
import json
import shlex
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import describe_hardware
from benchmarks.cpu.servers import Server, portable
from benchmarks.gpu.overload.hog import GpuHog
from benchmarks.gpu.overload.mix import Mix
from benchmarks.gpu.overload.scenes import Outcome, Stage
from benchmarks.gpu.serving.run import describe_gpu

LONG_PROMPT_SHARE = 0.97
"""Of a step's token budget: a prompt that is computed in one step of its own."""


class Run:
    """One server from its start to its end, with the scenes that are played on it."""

    def __init__(self, options: argparse.Namespace, front_ends: int, folder: Path, *, lacks_memory: bool) -> None:
        """``lacks_memory``: the scene in which the device runs out of memory is played, too."""
        flags = f"--api-server-count {front_ends} --deterministic" if front_ends else ""
        command = (
            f"{sys.executable} -m anaphora serve {shlex.quote(str(options.model))} --load-format dummy --no-access-log "
            f"--port {{port}} --device {options.device} --num-gpu-blocks-override {options.blocks} "
            f"--max-num-batched-tokens {options.batched_tokens} --max-num-seqs {options.requests // 2} "
            f"--max-waiting-requests {options.requests - options.requests // 2} {flags}"
        )
        self._options = options
        self._front_ends = front_ends
        self._lacks_memory = lacks_memory
        self._log = folder / f"server-{front_ends}.log"
        self._server = Server(f"{front_ends}-front-ends", command.strip(), self._log)
        self._num_read = 0
        self.told: dict[str, Any] = {"front_ends": front_ends, "command": portable(self._server.command), "scenes": []}
        """What is kept of it."""

    def play(self) -> None:
        """Start the server, play all scenes and stop it; what goes wrong is told, not raised."""
        hog = GpuHog(self._options.free_mib * 2**20) if self._lacks_memory else None
        try:
            self.told["start_s"] = round(self._server.start(), 1)
            self._num_read = len(self._log.read_text(errors="replace"))
            for outcome in self._scenes(hog):
                outcome.problems += self._problems_inside(outcome)
                self.told["scenes"].append(asdict(outcome))
                print(json.dumps({"front_ends": self._front_ends, **asdict(outcome)}), flush=True)
        except Exception as error:  # the next server is tried all the same
            self._told_of(error)
        finally:
            self._server.stop()
            if hog is not None:
                hog.kill()

    @property
    def is_fine(self) -> bool:
        """Whether nothing went wrong."""
        return "problem" not in self.told and not any(scene["problems"] for scene in self.told["scenes"])

    def _scenes(self, hog: GpuHog | None) -> Iterator[Outcome]:
        options = self._options
        mix = Mix(
            json.loads((options.model / "config.json").read_text("utf-8"))["vocab_size"],
            longest_prompt=options.longest_prompt,
            longest_output=options.longest_output,
            leaves_within_s=options.leaves_within_s,
            seed=options.seed,
        )
        stage = Stage(
            self._server.port,
            self._server.model(),
            mix,
            limit_s=options.limit_s,
            are_texts_exact=options.device == "cpu" or self._front_ends > 0,
        )
        if hog is not None:
            try:
                outcome = stage.out_of_memory(hog, int(LONG_PROMPT_SHARE * options.batched_tokens))
            except Exception as error:  # the other scenes are played all the same
                self._told_of(error)
                hog.kill()
            else:
                yield outcome
        yield stage.full_pool(options.requests, some_leave=False)
        yield stage.full_pool(options.requests, some_leave=True)
        yield stage.crowd(options.requests + options.requests // 2, options.requests)

    def _told_of(self, error: Exception) -> None:
        self.told["problem"] = portable(repr(error))
        print(f"{self._front_ends} front ends: {error!r}", flush=True)
        print(self._log.read_text(errors="replace")[-4000:] if self._log.exists() else "no log", flush=True)

    def _problems_inside(self, outcome: Outcome) -> list[str]:
        """What clients do not see: processes that ended, and errors in the log that no failed step explains."""
        problems = []
        if set(self._server.members) - set(self._server.members_now()):
            problems.append("processes of the server have ended or were replaced")
        text = self._log.read_text(errors="replace")[self._num_read :]
        self._num_read += len(text)
        if "Traceback" in text and not outcome.grown["failed_steps"]:
            problems.append(f"the server's log has an error: {text[text.index('Traceback') :][-1500:]}")
        return problems


def main() -> int:
    """See the module."""
    options = _options()
    started_s, runs = time.monotonic(), list[Run]()
    record: dict[str, Any] = {
        "command": portable(shlex.join(["python", "-m", "benchmarks.gpu.overload", *sys.argv[1:]])),
        "hardware": {**describe_hardware(), "gpu": describe_gpu()},
        "requests": options.requests,
    }
    if options.device == "cpu":
        record["skipped"] = ["out of memory: needs a GPU, whose memory another process can take"]
        print(f"skipped: {record['skipped'][0]}", flush=True)
    with tempfile.TemporaryDirectory(prefix="overload-") as folder:
        for front_ends in options.front_ends:
            runs.append(Run(options, front_ends, Path(folder), lacks_memory=options.device != "cpu" and not runs))
            runs[-1].play()
            record |= {"seconds": round(time.monotonic() - started_s, 1), "servers": [run.told for run in runs]}
            options.out.write_text(json.dumps(record, indent=1) + "\n")
    is_fine = all(run.is_fine for run in runs)
    print(f"{'all is well' if is_fine else 'NOT WELL'}, after {record['seconds']} s", flush=True)
    return int(not is_fine)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder with config.json and the tokenizer")
    parser.add_argument("out", type=Path, help="JSON file")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--requests", type=int, default=512, help="at once")
    parser.add_argument("--blocks", type=int, default=2200, help="of 16 tokens, the whole KV cache")
    parser.add_argument("--batched-tokens", type=int, default=8192, help="of a step")
    parser.add_argument("--longest-prompt", type=int, default=600, help="tokens")
    parser.add_argument("--longest-output", type=int, default=128, help="tokens")
    parser.add_argument("--front-ends", type=int, nargs="+", default=[0, 2], help="of each server; 0: one process")
    parser.add_argument("--leaves-within-s", type=float, default=3.0, help="clients leave by then, or midway")
    parser.add_argument("--free-mib", type=int, default=256, help="of the GPU's memory that nobody takes")
    parser.add_argument("--limit-s", type=float, default=60.0, help="what takes longer hangs")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
