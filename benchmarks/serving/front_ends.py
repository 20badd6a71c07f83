"""HTTP and text in the engine's process, or in processes beside it: what stays in the engine's own process?

    python -m benchmarks.serving.front_ends MODEL_FOLDER --out benchmarks/results/serving/front_ends.json

64 clients ask at once, each a prompt of one shared prefix and a question of its own, once for one token and once for
many; the model answers at once, so all time is the host's. The arms (all in one process, 1 and 2 front ends) take
turns. CPU times are the kernel's, per thread: with front ends, what the engine's two threads use is all that
one request has to wait for of another. They are worth more than the latencies where cores are few.
"""

import argparse
import json
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.cpu.servers import Server
from benchmarks.gpu.serving.burst import burst
from benchmarks.gpu.serving.client import Client
from benchmarks.gpu.serving.prompts import Texts
from benchmarks.serving.client_limit import measure_client
from benchmarks.serving.instant import MODEL_NAME

NUM_CLIENTS = 64
PREFIX_TOKENS = 4096
OUTPUTS = (1, 64)
ARMS = (0, 1, 2)
ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds used so far."""

    engine: float
    loop: float
    client: float

    def since(self, before: "Usage", num_requests: int) -> dict[str, float]:
        """Milliseconds for each request."""
        names = ("engine", "loop", "client")
        return {name: 1000 * (getattr(self, name) - getattr(before, name)) / num_requests for name in names}


def thread_cpu_s(thread: int) -> float:
    """CPU time of a thread of any process, to the nanosecond."""
    return int(Path(f"/proc/{thread}/schedstat").read_text().split()[0]) / 1e9


def usage(threads: Mapping[str, int]) -> Usage:
    """Of the server's threads and of this process."""
    return Usage(thread_cpu_s(threads["engine"]), thread_cpu_s(threads["loop"]), time.process_time())


def measure(server: Server, threads: Mapping[str, int], texts: Texts, seed: str, max_tokens: int) -> dict[str, Any]:
    """One burst. Its CPU times hold the short request that warms each connection, too."""
    system = texts.text(PREFIX_TOKENS, "shared")
    Client(server.port, MODEL_NAME).ask(system, "before", max_tokens=1)
    before = usage(threads)
    questions = [texts.question(f"{seed} {index}") for index in range(NUM_CLIENTS)]
    replies = burst(server.port, MODEL_NAME, system, questions, max_tokens=max_tokens)
    used = usage(threads).since(before, NUM_CLIENTS)
    ttfts = sorted(reply.ttft_ms for reply in replies)
    return {
        "output_tokens": max_tokens,
        "cpu_ms_per_request": used,
        "ttft_ms": {"median": statistics.median(ttfts), "p99": ttfts[round(0.99 * (len(ttfts) - 1))], "min": ttfts[0]},
        "total_s": max(r.done_s for r in replies) - min(r.sent_s for r in replies),
        "cached_tokens": sum(reply.num_cached_tokens or 0 for reply in replies),
        "prompt_tokens": sum(reply.num_prompt_tokens for reply in replies),
    }


def warming(server: Server, threads: Mapping[str, int], texts: Texts, seed: str) -> dict[str, float]:
    """CPU milliseconds of one short request, when one comes after the other."""
    before = usage(threads)
    for index in range(NUM_CLIENTS):
        client = Client(server.port, MODEL_NAME)
        client.ask("hello", f"hello {seed} {index}", max_tokens=1)
        client.close()
    return usage(threads).since(before, NUM_CLIENTS)


def start(folder: Path, count: int, work: Path) -> tuple[Server, dict[str, int]]:
    """A server of one arm, and its threads."""
    file = work / f"threads-{count}.json"
    module = "benchmarks.serving.instant_server"
    command = f"{sys.executable} -m {module} {folder} {{port}} {count} {file}"
    server = Server(f"front-ends-{count}", command, work / f"{count}.log")
    server.start()
    return server, json.loads(file.read_text())


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder with a tokenizer")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--note", help="what else the machine did, to be kept with the results")
    options = parser.parse_args()
    work, texts = Path(tempfile.mkdtemp(prefix="front-ends-")), Texts(options.model)
    servers = {count: start(options.model, count, work) for count in ARMS}
    bursts: list[dict[str, Any]] = []
    try:
        for number in range(options.rounds):
            for count, (server, threads) in servers.items():
                warm = warming(server, threads, texts, str(number))
                for max_tokens in OUTPUTS:
                    found = measure(server, threads, texts, f"{number} {max_tokens}", max_tokens)
                    bursts.append({"front_ends": count, "round": number, "short_request_cpu_ms": warm, **found})
                    print(json.dumps(bursts[-1]), flush=True)
    finally:
        for server, _ in servers.values():
            server.stop()
    record = {
        "command": "python -m benchmarks.serving.front_ends MODEL_FOLDER",
        **({} if options.note is None else {"note": options.note}),
        "tokenizer": options.model.name,
        "python": platform.python_version(),
        "clients": NUM_CLIENTS,
        "client_events_per_s": measure_client(NUM_CLIENTS),
        "summary": summary(bursts),
        "bursts": bursts,
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(record, indent=1) + "\n")


def summary(bursts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Medians over the rounds. CPU times are those of a request and of the short one that warms its connection."""
    rows = []
    for count in sorted({b["front_ends"] for b in bursts}):
        for max_tokens in sorted({b["output_tokens"] for b in bursts}):
            chosen = [b for b in bursts if (b["front_ends"], b["output_tokens"]) == (count, max_tokens)]
            row: dict[str, Any] = {"front_ends": count, "output_tokens": max_tokens}
            for name in ("engine", "loop", "client"):
                used = [b["cpu_ms_per_request"][name] for b in chosen]
                row[f"{name}_cpu_ms"] = round(statistics.median(used), 3)
            for name in ("median", "p99"):
                row[f"ttft_{name}_ms"] = round(statistics.median(b["ttft_ms"][name] for b in chosen), 1)
            row["total_s"] = round(statistics.median(b["total_s"] for b in chosen), 3)
            rows.append(row)
    return rows


if __name__ == "__main__":
    main()
