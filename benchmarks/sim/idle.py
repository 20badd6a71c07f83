"""Does a server take longer for a request that finds it idle than for one that follows another at once?

    python -m benchmarks.sim.idle [--rounds N] [--out FOLDER] [--model MODEL]

The lab, to which latency models are fitted, sends one request after another; users leave gaps. Here chats that hit the
same prefix are sent at once and after a gap, to three servers in turn, so that whatever else goes on at the machine
meets all alike: with one thread; with two, whose second one is kept off the first one's core; and with two that are
left where the kernel wakes them, as ``OMP_PROC_BIND`` says. Results go to ``benchmarks/results/sim``.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any

from benchmarks.cpu.procfs import busy_time_s, describe_hardware
from benchmarks.cpu.prompts import QUESTIONS, system_prompt
from benchmarks.cpu.servers import Server
from benchmarks.sim.drive import Driver, driver
from benchmarks.sim.load import Chat
from benchmarks.sim.validate import RESULTS

GAPS_S = (0.0, 2.0)
ARMS = {
    "one thread": ("", "--num-threads 1"),
    "two threads, placed": ("", "--num-threads 2"),
    "two threads, not placed": ("OMP_PROC_BIND=false", "--num-threads 2"),
}
"""What stands before the command of each server, and options."""
SYSTEM = system_prompt("idle", 300)
NUM_TOKENS = 8
"""Of each answer."""


def main() -> None:
    """Measure, keep, show."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--model", default="", help="a model folder; without one, the default model")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="idle-") as folder, ExitStack() as running:
        servers = {}
        for number, (arm, (before, after)) in enumerate(ARMS.items()):
            command = f"env {before} {sys.executable} -m anaphora serve {options.model} --port {{port}} {after}"
            servers[arm] = Server(arm, command, Path(folder) / f"{number}.log")
            running.callback(servers[arm].stop)
            servers[arm].start()
        rows = asyncio.run(_measure(servers, options.rounds))
    results = {"environment": describe_hardware(), "gaps_s": GAPS_S, "rows": rows}
    (options.out / "idle.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (options.out / "idle.md").write_text(table(results) + "\n", "utf-8")
    print(table(results))


async def _measure(servers: dict[str, Server], num_rounds: int) -> list[dict[str, Any]]:
    """One row a chat: arm, gap, TTFT, the time between its tokens, cached tokens, and cores in use meanwhile."""
    chance = random.Random(0)
    rows = []
    async with AsyncExitStack() as stack:
        drivers = {
            arm: await stack.enter_async_context(driver(server.base_url, server.model()))
            for arm, server in servers.items()
        }
        for one in drivers.values():
            await one.ask(_chat(chance))
        cells = [(arm, gap_s) for arm in drivers for gap_s in GAPS_S]
        for number in range(1, num_rounds + 1):
            for arm, gap_s in chance.sample(cells, len(cells)):
                rows.append({"round": number, "arm": arm, "gap_s": gap_s, **await _ask(drivers[arm], gap_s, chance)})
    return rows


async def _ask(one: Driver, gap_s: float, chance: random.Random) -> dict[str, float]:
    await one.ask(_chat(chance))  # whatever the gap, the same came before
    await asyncio.sleep(gap_s)
    busy_s = busy_time_s()
    reply = await one.ask(_chat(chance))
    return {
        "ttft_ms": round(reply.ttft_ms, 3),
        "tpot_ms": round(1000 * (reply.last_token_s - reply.first_token_s) / (NUM_TOKENS - 1), 3),
        "cached_tokens": reply.num_cached_tokens,
        "busy_cores": round((busy_time_s() - busy_s) / (reply.done_s - reply.sent_s), 2),
    }


def _chat(chance: random.Random) -> Chat:
    """The same prefix, then a number that no two have: they have as many new tokens, but for a rare chance."""
    return Chat(0.0, SYSTEM, f"{chance.randrange(10**8, 10**9)}: {QUESTIONS[0]}", NUM_TOKENS, "")


def table(results: dict[str, Any]) -> str:
    """Medians and quartiles in Markdown."""
    hardware = results["environment"]
    lines = [
        f"- {hardware['cpu']}, {hardware['cores']} cores. Command: `python -m benchmarks.sim.idle`",
        "",
        "| server | TTFT at once, ms | after 2 s, ms | between tokens at once, ms | after 2 s, ms |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for arm in ARMS:
        cells = [
            _cell([row[name] for row in results["rows"] if row["arm"] == arm and row["gap_s"] == gap_s])
            for name in ("ttft_ms", "tpot_ms")
            for gap_s in results["gaps_s"]
        ]
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(values: list[float]) -> str:
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.0f} ({low:.0f}–{high:.0f})"


if __name__ == "__main__":
    main()
