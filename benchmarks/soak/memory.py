"""Does the server keep what it should let go? Bursts of mixed requests, and a look at the idle process after each.

    python -m benchmarks.soak.memory tiny --rounds 20 --requests 400 --out benchmarks/results/soak/memory_tiny.json
    python -m benchmarks.soak.memory MODEL_FOLDER --rounds 12 --requests 60 --out FILE

``tiny`` is a random model of 400 tokens, made on the spot. After each burst the server is left until no request runs;
then memory (RSS, PSS), file descriptors, threads, event-loop tasks, Python objects, what malloc has handed out and
keeps, and free KV blocks are written down. KV memory is taken as blocks are used first: the KV cache is small here,
and full after the first bursts, so that what grows later is something else.
"""

import argparse
import asyncio
import json
import os
import shlex
import signal
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import describe_hardware, pss_mib
from benchmarks.cpu.servers import Server, portable
from benchmarks.soak.load import KINDS, Load, Sizes

IDLE_LIMIT_S = 60.0
WARM_UP_SHARE = 0.25
"""Of the rounds: what grows in them is first use."""


def main() -> None:
    """Run as the command line says."""
    options = _options()
    with tempfile.TemporaryDirectory() as folder:
        model, sizes = _model(options.model, Path(folder))
        window = Path(folder) / "inside.jsonl"
        words = [sys.executable, "-m", "benchmarks.soak.inside", str(window), "serve", str(model)]
        words += ["--port", "{port}", "--kv-cache-memory-bytes", str(options.kv_bytes), *options.server_option]
        server = Server("ours", shlex.join(words), Path(folder) / "server.log")
        server.start()
        try:
            samples = asyncio.run(_soak(server, window, sizes, options))
        finally:
            server.stop()
    print(json.dumps(growth(samples), indent=1))


def growth(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """From the end of the warm-up to the last round: how many requests came, and what each figure grew by."""
    first, last = samples[max(1, int(len(samples) * WARM_UP_SHARE))], samples[-1]
    names = (
        "rss_mib",
        "pss_mib",
        "heap_used_mib",
        "heap_kept_mib",
        "objects",
        "fds",
        "threads",
        "tasks",
        "used_blocks",
    )
    return {
        "requests": last["requests"] - first["requests"],
        **{name: round(last[name] - first[name], 2) for name in names},
    }


async def _soak(server: Server, window: Path, sizes: Sizes, options: argparse.Namespace) -> list[dict[str, Any]]:
    load = Load(server.base_url, server.model(), sizes, options.seed, options.kinds.split(","))
    samples = [{"requests": 0, "seconds": 0.0, **_look(server, window)}]
    started_s = time.monotonic()
    for number in range(1, options.rounds + 1):
        ended = await load.burst(options.requests)
        sample = {"requests": number * options.requests, "seconds": round(time.monotonic() - started_s, 1)}
        samples.append({**sample, **_look(server, window), "ended": dict(sorted(ended.items()))})
        print(json.dumps(samples[-1]), flush=True)
        if options.out is not None:
            options.out.write_text(json.dumps(_result(samples, options), indent=1) + "\n", "utf-8")
    return samples


def _result(samples: list[dict[str, Any]], options: argparse.Namespace) -> dict[str, Any]:
    """What is kept of a run, or of its beginning."""
    return {
        "command": portable(shlex.join(["python", "-m", "benchmarks.soak.memory", *sys.argv[1:]])),
        "hardware": describe_hardware(),
        "kv_cache_memory_bytes": options.kv_bytes,
        "requests_per_round": options.requests,
        "growth": growth(samples),
        "samples": samples,
    }


def _look(server: Server, window: Path) -> dict[str, Any]:
    """The figures of the server once it is idle."""
    metrics = _when_idle(server)
    (process,) = server.members
    seen = window.read_text().count("\n") if window.exists() else 0
    os.kill(process, signal.SIGUSR1)
    deadline = time.monotonic() + IDLE_LIMIT_S
    while not window.exists() or window.read_text().count("\n") == seen:
        assert time.monotonic() < deadline, "the server does not answer SIGUSR1"
        time.sleep(0.02)
    inside = json.loads(window.read_text().splitlines()[-1])
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{process}/status").read_text().splitlines())
    return {
        "rss_mib": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "pss_mib": round(pss_mib([process]), 1),
        "heap_used_mib": inside["heap_mib"]["used"],
        "heap_kept_mib": inside["heap_mib"]["kept"],
        "objects": inside["objects"],
        "fds": len(list(Path(f"/proc/{process}/fd").iterdir())),
        "threads": int(status["Threads"]),
        "tasks": inside["tasks"],
        "used_blocks": int(metrics["anaphora:kv_cache_blocks"] - metrics["anaphora:kv_cache_free_blocks"]),
        "cached_token_hits": int(metrics["vllm:prefix_cache_hits_total"]),
        "evicted_blocks": int(metrics["anaphora:evicted_blocks_total"]),
    }


def _when_idle(server: Server) -> dict[str, float]:
    """``/metrics`` without labels, as soon as no request runs or waits."""
    deadline = time.monotonic() + IDLE_LIMIT_S
    while True:
        with urllib.request.urlopen(f"{server.base_url}/metrics", timeout=10) as response:
            lines = response.read().decode().splitlines()
        samples = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        metrics = {name.partition("{")[0]: float(value) for name, value in samples}
        if metrics["vllm:num_requests_running"] == metrics["vllm:num_requests_waiting"] == 0:
            return metrics
        assert time.monotonic() < deadline, "requests still run"
        time.sleep(0.05)


def _model(name: str, folder: Path) -> tuple[Path, Sizes]:
    if name != "tiny":
        return Path(name), Sizes(long_prompt=400, output=6)
    from tests.models_for_tests import tiny_checkpoint

    return tiny_checkpoint(folder / "tiny"), Sizes(long_prompt=380, output=24)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model folder, or tiny")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--requests", type=int, default=400, help="of each round")
    parser.add_argument("--kv-bytes", type=int, default=16 * 2**20, help="size of the KV cache")
    parser.add_argument("--kinds", default=",".join(KINDS), help="of requests, to look for who is to blame")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--server-option", action="append", default=[], metavar="--NAME=VALUE")
    parser.add_argument("--out", type=Path, help="JSON file for all samples")
    return parser.parse_args()


if __name__ == "__main__":
    main()
