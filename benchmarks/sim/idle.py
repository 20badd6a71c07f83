"""Does a server take longer for a request that finds it idle than for one that follows another at once?

    python -m benchmarks.sim.idle [--rounds N] [--out FOLDER] [--model MODEL]

The lab, to which latency models are fitted, sends one request after another; users leave gaps. Here the same chat is
sent at once and after a gap, in turn, so that whatever else goes on at the machine meets both alike. Results go to
``benchmarks/results/sim``.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.cpu.meter import Meter
from benchmarks.cpu.procfs import describe_hardware
from benchmarks.cpu.prompts import QUESTIONS, system_prompt
from benchmarks.cpu.servers import Server
from benchmarks.sim.drive import driver
from benchmarks.sim.load import Chat
from benchmarks.sim.validate import RESULTS, SERVER_OPTIONS

GAPS_S = (0.0, 2.0)
KINDS = ("hit", "cold")
SYSTEM = system_prompt("idle", 300)


def main() -> None:
    """Measure, keep, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--model", default="", help="a model folder; without one, the default model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-") as folder:
        command = f"{sys.executable} -m anaphora serve {options.model} --port {{port}} {SERVER_OPTIONS}"
        server = Server("ours", command, Path(folder) / "server.log")
        try:
            server.start()
            meter = Meter(server)
            ttfts = asyncio.run(_measure(server, options.rounds))
            results = {"environment": describe_hardware(), **meter.read(), "gaps_s": GAPS_S, "ttft_ms": ttfts}
        finally:
            server.stop()
    (options.out / "idle.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    print(summary(results))


async def _measure(server: Server, num_rounds: int) -> dict[str, list[list[float]]]:
    """For each kind of chat and each round: the TTFTs, in the order of the gaps."""
    chance = random.Random(0)
    ttfts: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    async with driver(server.base_url, server.model()) as one:
        await one.ask(_chat("hit", 0))
        for number in range(1, num_rounds + 1):
            for kind in KINDS:
                row = [0.0] * len(GAPS_S)
                for place in chance.sample(range(len(GAPS_S)), len(GAPS_S)):
                    await one.ask(_chat("hit", 0))  # whatever the gap, the same came before
                    await asyncio.sleep(GAPS_S[place])
                    row[place] = (await one.ask(_chat(kind, 2 * number + place))).ttft_ms
                ttfts[kind].append(row)
    return ttfts


def _chat(kind: str, number: int) -> Chat:
    salt = "" if kind == "hit" else f"idle-{number}"
    return Chat(0.0, SYSTEM, f"{QUESTIONS[0]} ({number})", 4, salt)


def summary(results: dict[str, Any]) -> str:
    """Medians, and in how many rounds the gap made it longer."""
    lines = []
    for kind, rows in results["ttft_ms"].items():
        at_once, later = (statistics.median(column) for column in zip(*rows, strict=True))
        num_longer = sum(row[1] > row[0] for row in rows)
        after = f"{later:.0f} ms after {GAPS_S[1]:g} s"
        lines.append(f"{kind}: {at_once:.0f} ms at once, {after}; longer in {num_longer} of {len(rows)} rounds")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
