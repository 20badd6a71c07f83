"""Where the time of many clients at once goes: the engine's steps, one by one, from the first request on.

    python -m benchmarks.gpu.serving.burst_split MODEL OUT.json [FLAG OF THE SERVER ...]

64 clients ask about one document that was sent before. Clients and engine read one monotonic clock; front ends are not
stamped. Milliseconds since the first client began to send, of the last of several bursts.
"""

import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.cpu.servers import Server
from benchmarks.gpu.serving.burst import burst
from benchmarks.gpu.serving.client import Client, Reply
from benchmarks.gpu.serving.measure import BURST_OUTPUT, CLIENT_PROCESSES, NUM_CLIENTS
from benchmarks.gpu.serving.prompts import Texts

LENGTH = 4060
"""Tokens of the document, which with template and question make some 4 thousand."""
BURSTS = 3
Stamp = tuple[str, float, int]


def steps(stamps: Sequence[Stamp], replies: Sequence[Reply]) -> list[dict[str, Any]]:
    """Each step: when it began, the passes that were launched in it and their tokens, when its tokens were there, and
    when it had ended; requests that had come to the engine by its begin."""
    begin = min(reply.sent_s for reply in replies)
    end = max(reply.done_s for reply in replies)
    found: list[dict[str, Any]] = []
    num_arrived = 0
    for station, at_s, number in stamps:
        if not begin <= at_s <= end:
            continue
        at_ms = round(1000 * (at_s - begin), 2)
        if station == "taken by the engine":
            num_arrived += 1
        elif station == "stepping":
            found.append({"began": at_ms, "arrived": num_arrived, "tokens": [], "launched": []})
        elif found and station == "planning":
            found[-1]["tokens"].append(number)
        elif found and station == "launched":
            found[-1]["launched"].append(at_ms)
        elif found and station == "sampled":
            found[-1]["sampled"] = at_ms
        elif found and station == "stepped":
            found[-1]["ended"] = at_ms
    return [step for step in found if step["tokens"] or "sampled" in step]


def figures(replies: Sequence[Reply]) -> dict[str, Any]:
    """Of the clients."""
    begin = min(reply.sent_s for reply in replies)
    first = sorted(1000 * (reply.first_token_s - begin) for reply in replies)
    return {
        "sent_ms": [round(1000 * (reply.sent_s - begin), 2) for reply in replies],
        "first_token_ms": [round(value, 2) for value in first],
        "ttft_median_ms": round(sorted(reply.ttft_ms for reply in replies)[len(replies) // 2], 2),
        "total_ms": round(1000 * (max(reply.done_s for reply in replies) - begin), 2),
    }


def main() -> None:
    """See the module."""
    model, out, *flags = sys.argv[1:]
    work = Path(tempfile.mkdtemp(prefix="burst-split-"))
    options = f"serve {model} --no-access-log --port {{port}} {' '.join(flags)}"
    command = f"{sys.executable} -m benchmarks.gpu.serving.traced_server {work / 'stamps.json'} {options}"
    server, texts = Server("traced", command, work / "server.log"), Texts(Path(model))
    system = texts.text(LENGTH, "document")
    bursts: list[list[Reply]] = []
    server.start()
    try:
        client, name = Client(server.port, server.model()), server.model()
        client.ask(system, "before", max_tokens=1)
        for number in range(BURSTS):
            questions = [texts.question(f"{number} {index}") for index in range(NUM_CLIENTS)]
            replies = burst(
                server.port, name, system, questions, max_tokens=BURST_OUTPUT, num_processes=CLIENT_PROCESSES
            )
            bursts.append(replies)
    finally:
        server.stop()
    stamps: list[Stamp] = [tuple(stamp) for stamp in json.loads((work / "stamps.json").read_text())]
    found: dict[str, Any] = {
        "flags": flags,
        "bursts": [figures(replies) for replies in bursts],
        "steps": steps(stamps, bursts[-1]),
    }
    Path(out).write_text(json.dumps(found) + "\n")
    for each in found["bursts"]:
        print({key: value for key, value in each.items() if not isinstance(value, list)})
    for step in found["steps"][:16] + found["steps"][-3:]:
        print(step)
    print((work / "server.log").read_text()[-3000:])


if __name__ == "__main__":
    main()
