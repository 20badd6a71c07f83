"""Our server, vLLM and llama.cpp on the same CPU, in one run, by one client.

The idea: every server is started alone (that times its start), then all stay resident and idle, and each request goes
to all of them in turn. Whatever disturbs the machine disturbs all alike: ratios survive what absolute times do not.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from pathlib import Path
from typing import Any

import aiohttp
from benchmarks.cpu import procfs
from benchmarks.cpu.client import READ_LIMIT_S, ChatClient
from benchmarks.cpu.phases import FULL, PHASES, QUICK, Contestant, Course, Plan
from benchmarks.cpu.sample import Recorder, Sample, read_samples
from benchmarks.cpu.servers import Server, portable
from benchmarks.cpu.summary import SERVERS, summarise
from benchmarks.cpu.table import render

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results" / "cpu"
QUICK_RESULTS = REPOSITORY / "results" / "cpu"
SETTLED_S = 2.0
IDLE_S = 5.0
HOST_PATH_LIMIT_S = 300.0


def main(argv: list[str] | None = None) -> None:
    """Measure, or only render an earlier run again."""
    words = sys.argv[1:] if argv is None else argv
    options = _parse(words)
    if options.render:
        write_summary(options.render)
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the servers are stopped on the way out
    commands = _commands(options)
    folder = options.results / time.strftime("%Y-%m-%dT%H%M%S", time.gmtime())
    folder.mkdir(parents=True)
    facts: dict[str, Any] = {
        "run": folder.name,
        "command": portable(shlex.join(["python", "-m", "benchmarks.cpu.compare", *words])),
        "servers": {name: portable(command) for name, command in commands.items()},
        "hardware": procfs.describe_hardware(),
        "plan": dataclasses.asdict(_plan(options)),
        "load_before": os.getloadavg(),
    }
    started_s = time.perf_counter()
    _measure(commands, options, facts, Recorder(folder / "raw.jsonl"))
    facts |= {"load_after": os.getloadavg(), "duration_s": round(time.perf_counter() - started_s, 1)}
    (folder / "run.json").write_text(json.dumps(facts, indent=1) + "\n")
    write_summary(folder)


def write_summary(folder: Path) -> None:
    """Make ``summary.json`` and ``table.md``, beside the run's folder, from what lies in it."""
    run = json.loads((folder / "run.json").read_text())
    summary = summarise(read_samples(folder / "raw.jsonl"), run, f"{folder.name}/raw.jsonl")
    (folder.parent / "summary.json").write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")
    table = render(summary)
    (folder.parent / "table.md").write_text(table)
    print(table)


def _measure(commands: dict[str, str], options: argparse.Namespace, facts: dict[str, Any], recorder: Recorder) -> None:
    """The whole run. The servers are stopped whatever happens."""
    plan = _plan(options)
    logs = Path(tempfile.mkdtemp(prefix="compare-"))
    print(f"server logs: {logs}")
    servers = [Server(name, command, logs / f"{name}.log") for name, command in commands.items()]
    try:
        for server in servers:
            _start(server, plan.starts if server.name == "ours" else 1, recorder)
        facts["versions"] = _versions(servers, options.note)
        _measure_idle_cpu(servers, recorder)
        asyncio.run(_run_course(servers, plan, recorder))
        time.sleep(IDLE_S)
        for server in servers:
            recorder.add(Sample(measure="final_pss_mib", server=server.name, value=server.pss_mib()))
    finally:
        for server in servers:
            server.stop()
    if options.host_path:
        _measure_host_path(options.host_path, recorder)


def _start(server: Server, times: int, recorder: Recorder) -> None:
    """Start a server, a few times over; it runs after the last."""
    for number in range(times):
        server.stop()
        ready_s = server.start()
        recorder.add(Sample(measure="ready_s", server=server.name, value=ready_s, round=number))
        time.sleep(SETTLED_S)
        recorder.add(Sample(measure="idle_pss_mib", server=server.name, value=server.pss_mib(), round=number))


def _measure_idle_cpu(servers: list[Server], recorder: Recorder) -> None:
    """What the servers use of the processors while nobody asks them anything."""
    before = [server.cpu_time_s() for server in servers]
    time.sleep(IDLE_S)
    for server, used_s in zip(servers, before, strict=True):
        percent = 100 * (server.cpu_time_s() - used_s) / IDLE_S
        recorder.add(Sample(measure="idle_cpu_percent", server=server.name, value=percent))


async def _run_course(servers: list[Server], plan: Plan, recorder: Recorder) -> None:
    timeout = aiohttp.ClientTimeout(total=READ_LIMIT_S)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(timeout=timeout, connector=connector) as session:
        contestants = [Contestant(s, ChatClient(session, s.base_url, s.model())) for s in servers]
        async for sample in Course(contestants, plan, seed=uuid.uuid4().hex).run():
            recorder.add(sample)


def _measure_host_path(command: str, recorder: Recorder) -> None:
    """The stages of a hit on the host, from the micro benchmark, which prints one sample a line."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False, timeout=HOST_PATH_LIMIT_S)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        recorder.add(Sample(measure="failure", server="ours", value=1, detail={"error": f"host path: {lines[-1]}"}))
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            recorder.add(Sample(**json.loads(line)))


def _versions(servers: list[Server], notes: list[str]) -> dict[str, str]:
    """What servers say of themselves, our commit, and what the caller adds (llama.cpp's server does not tell)."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    versions = {server.name: server.version() for server in servers} | dict(note.split("=", 1) for note in notes)
    return versions | {"commit": commit.stdout.strip() or "unknown"}


def _commands(options: argparse.Namespace) -> dict[str, str]:
    """The servers' command lines: those of the file, then those given as options."""
    commands: dict[str, str] = tomllib.loads(options.config.read_text()) if options.config else {}
    commands |= {name: given for name in SERVERS if (given := getattr(options, name))}
    unknown = set(commands) - set(SERVERS)
    if unknown or not commands:
        sys.exit(f"compare: give at least one of {', '.join(SERVERS)}" + (f", not {unknown}" if unknown else ""))
    return {name: command for name, command in commands.items() if command}


def _plan(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    given = {"lengths": options.lengths, "rounds": options.rounds, "phases": options.phases}
    return dataclasses.replace(plan, **{name: value for name, value in given.items() if value is not None})


def _parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cpu.compare", description=__doc__)
    for name in SERVERS:
        parser.add_argument(f"--{name}", metavar="COMMAND", help="its command line; {port} stands for a free port")
    parser.add_argument("--config", type=Path, metavar="FILE.toml", help="command lines, as name = 'command'")
    parser.add_argument("--host-path", metavar="COMMAND", help="micro benchmark of the host's share of a hit")
    parser.add_argument("--note", action="append", default=[], metavar="NAME=VERSION", help="a version to record")
    parser.add_argument(
        "--quick", action="store_true", help="one round over three lengths: minutes, and only a first impression"
    )
    parser.add_argument("--lengths", type=_numbers, metavar="N,N", help="tokens of the shared prefixes")
    parser.add_argument("--rounds", type=int, help="times that each length is measured with new content")
    parser.add_argument("--phases", type=_names, help=f"of {','.join(PHASES)}")
    parser.add_argument("--results", type=Path, help="where the run's folder, summary.json and table.md go")
    parser.add_argument("--render", type=Path, metavar="RUN", help="only make the summary of this run's folder again")
    options = parser.parse_args(words)
    options.results = options.results or (QUICK_RESULTS if options.quick else RESULTS)
    return options


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split(","))


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    main()
