"""Where the time of a hit goes: one request after the other, stamped at its stations in the server.

    python -m benchmarks.gpu.serving.hit_split MODEL OUT.json [--gap-ms MS] [FLAG OF THE SERVER ...]

``--gap-ms``: the client rests so long before each request, as clients do.

Client and server are two processes of one machine and read one monotonic clock. Milliseconds since the client began to
send, medians over the requests of a length; the server runs in one process, since stations of several would need more
hands. Stamps cost some microseconds each.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.cpu.servers import Server
from benchmarks.gpu.serving.client import Client
from benchmarks.gpu.serving.prompts import Texts

LENGTHS = (353, 3961, 16000)
"""Tokens of each prompt, with template and question."""
REQUESTS = 25


def split(stamps: list[tuple[str, float, int]], sent_s: float, first_token_s: float) -> dict[str, float]:
    """Milliseconds at which one request first passed each station."""
    passed: dict[str, float] = {}
    for station, at_s, _ in stamps:
        if sent_s <= at_s <= first_token_s:
            passed.setdefault(station, 1000 * (at_s - sent_s))
    return passed | {"first token at the client": 1000 * (first_token_s - sent_s)}


def medians(rows: list[dict[str, float]]) -> dict[str, float]:
    """Of each station, in order."""
    found = {name: statistics.median([row[name] for row in rows if name in row]) for row in rows for name in row}
    return {name: round(value, 3) for name, value in sorted(found.items(), key=lambda pair: pair[1])}


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--gap-ms", type=float, default=0.0)
    options, flags = parser.parse_known_args()
    model, out, gap_ms = options.model, options.out, options.gap_ms
    work = Path(tempfile.mkdtemp(prefix="hit-split-"))
    arguments = f"serve {model} --no-access-log --port {{port}} {' '.join(flags)}"
    command = f"{sys.executable} -m benchmarks.gpu.serving.traced_server {work / 'stamps.json'} {arguments}"
    server, texts = Server("traced", command, work / "server.log"), Texts(Path(model))
    requests: list[tuple[int, float, float]] = []
    server.start()
    try:
        client = Client(server.port, server.model())
        probe = client.ask(texts.text(32, "probe"), texts.question("probe"), max_tokens=1)
        for length in LENGTHS:
            system = texts.text(length - (probe.num_prompt_tokens - 32), "document")
            asked = [client.request(system, texts.question(f"question {n}"), 1) for n in range(REQUESTS)]
            client.ask(system, texts.question("before"), max_tokens=1)
            for request in asked:
                time.sleep(gap_ms / 1000)
                reply = client.send(request).read()
                assert reply.num_prompt_tokens == length, reply
                requests.append((length, reply.sent_s, reply.first_token_s))
    finally:
        server.stop()
    stamps: list[Any] = json.loads((work / "stamps.json").read_text())
    found = {
        length: medians([split(stamps, sent, first) for of, sent, first in requests if of == length])
        for length in LENGTHS
    }
    Path(out).write_text(
        json.dumps({"flags": flags, "gap_ms": gap_ms, "requests": REQUESTS, "ms": found}, indent=1) + "\n"
    )
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
