"""One run: start the servers, let them take turns, stop them."""

import asyncio
import json
import shlex
import subprocess
import tempfile
import time
import uuid
from collections.abc import Mapping
from pathlib import Path

import aiohttp
from benchmarks.cpu.client import READ_LIMIT_S, ChatClient
from benchmarks.cpu.phases import Contestant, Course
from benchmarks.cpu.plan import Plan
from benchmarks.cpu.sample import Recorder, Sample
from benchmarks.cpu.servers import Server, portable

SETTLED_S = 2.0
IDLE_S = 5.0
HOST_PATH_LIMIT_S = 300.0


def measure(commands: Mapping[str, str], plan: Plan, recorder: Recorder) -> dict[str, str]:
    """The whole run over the servers of these command lines; returns what each says of its version.

    The servers are stopped whatever happens.
    """
    logs = Path(tempfile.mkdtemp(prefix="compare-"))
    print(f"server logs: {logs}")
    servers = [Server(name, command, logs / f"{name}.log") for name, command in commands.items()]
    try:
        for server in servers:
            _start(server, plan.starts if server.name == "ours" else 1, recorder)
        versions = {server.name: server.version() for server in servers}
        _measure_idle_cpu(servers, recorder)
        asyncio.run(_run_course(servers, plan, recorder))
        time.sleep(IDLE_S)
        for server in servers:
            recorder.add(Sample(measure="final_pss_mib", server=server.name, value=server.pss_mib()))
    finally:
        for server in servers:
            server.stop()
    return versions


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


def measure_host_path(command: str, recorder: Recorder) -> None:
    """The stages of a hit on the host, from the micro benchmark, which prints one sample a line."""
    done = subprocess.run(shlex.split(command), capture_output=True, text=True, check=False, timeout=HOST_PATH_LIMIT_S)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        recorder.add(
            Sample(measure="failure", server="ours", value=1, detail={"error": f"host path: {portable(lines[-1])}"})
        )
        return
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            recorder.add(Sample(**json.loads(line)))
