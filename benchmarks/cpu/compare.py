"""Our server, vLLM and llama.cpp on the same CPU, in one run, by one client.

The idea: every server is started alone (that times its start), then all stay resident and idle, and each request goes
to all of them in turn. Whatever disturbs the machine disturbs all alike: ratios survive what absolute times do not.
"""

import argparse
import dataclasses
import json
import os
import shlex
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.cpu import procfs
from benchmarks.cpu.plan import FULL, PHASES, QUICK, Plan
from benchmarks.cpu.run import measure, measure_host_path
from benchmarks.cpu.sample import Recorder, read_samples
from benchmarks.cpu.servers import portable
from benchmarks.cpu.summary import SERVERS, summarise
from benchmarks.cpu.table import render

REPOSITORY = Path(__file__).parents[2]
RESULTS = REPOSITORY / "benchmarks" / "results" / "cpu"
QUICK_RESULTS = REPOSITORY / "results" / "cpu"


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
    recorder = Recorder(folder / "raw.jsonl")
    versions = measure(commands, _plan(options), recorder)
    if options.host_path:
        measure_host_path(options.host_path, recorder)
    facts |= {
        "versions": {**versions, **dict(note.split("=", 1) for note in options.note), "commit": _commit()},
        "load_after": os.getloadavg(),
        "duration_s": round(time.perf_counter() - started_s, 1),
    }
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


def _commit() -> str:
    """The repository's, with a mark if files differ from it."""
    describe = ["git", "describe", "--always", "--dirty"]
    done = subprocess.run(describe, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


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
