"""The built-in server with known timings, and what is told of the client's error."""

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.errors import ConfigError, TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.calibration import calibrate as calibration
from anaphora.lab.calibration.calibrate import ClientError, Spread, as_json, calibrate
from anaphora.lab.calibration.server_process import timed_server
from anaphora.lab.calibration.tables import client_error_table
from anaphora.lab.calibration.timed_server import Streams, Timing
from anaphora.lab.calibration.timed_stream import TimedStream
from anaphora.lab.http import HttpClient
from anaphora.protocol.sse import encode_event
from tests.lab.test_session import heeds_sigint

__all__ = ["heeds_sigint"]  # a fixture

SHORT = Timing(first_delay_ms=30.0, num_events=5, interval_ms=2.0)


def test_every_event_of_every_stream_is_compared_and_no_stamp_is_early() -> None:
    (one, four) = asyncio.run(calibrate((1, 4), repeats=1, timing=SHORT))
    assert (one.num_streams, one.ttft_error_ms.num_samples, one.event_error_ms.num_samples) == (1, 20, 100)
    assert (four.num_streams, four.ttft_error_ms.num_samples, four.event_error_ms.num_samples) == (4, 20, 100)
    for found in (one, four):
        assert 0 <= found.ttft_error_ms.median <= found.ttft_error_ms.p99
        assert 0 <= found.event_error_ms.median <= found.event_error_ms.p99
    assert as_json([one])["ttft_error_ms"]["1"]["median"] == one.ttft_error_ms.median


def test_events_that_are_read_together_share_the_stamp_of_the_last() -> None:
    def event(stamp: int) -> bytes:
        return encode_event(json.dumps({"choices": [{"index": 0, "delta": {"content": f"{stamp:020d}"}}]}))

    stream = TimedStream()
    stream.feed(100, event(99))
    stream.feed(500, event(200) + event(300) + event(499))
    assert stream.errors_ns == [1, 300, 200, 1]
    assert stream.shares_stamp == [False, True, True, False]


@pytest.mark.parametrize(("num_late", "is_true"), [(0, True), (1, True), (3, False)])
def test_a_tail_of_events_that_were_read_late_is_not_trusted(num_late: int, is_true: bool) -> None:
    spread = Spread.of([(4_000_000, False)] * (200 - num_late) + [(90_000_000, True)] * num_late)
    assert (spread.median, spread.num_samples, spread.tail_is_true) == (4.0, 200, is_true)
    note = client_error_table([ClientError(64, spread, spread, 3.0)]).note
    assert ("With 64 streams the 99th percentile is not to be trusted" in note) is not is_true
    assert "With 64 streams even the median is more than 3 ms late: one process cannot time so many" in note


def test_the_server_keeps_the_times_that_were_asked_for() -> None:
    class Sink:
        def __init__(self) -> None:
            self.sent_ns: list[int] = []

        def begin(self, status: int, headers: object) -> None:
            assert status == 200

        def feed(self, ns: int, piece: bytes) -> None:
            events = [json.loads(line[6:]) for line in piece.split(b"\n") if line.startswith(b"data: {")]
            self.sent_ns += [int(choice["delta"]["content"]) for event in events for choice in event["choices"]]

    async def one_stream() -> tuple[int, list[int]]:
        async with timed_server() as base:
            client, sink = HttpClient(base, clock=time.monotonic_ns), Sink()
            body = json.dumps({"timing": {"first_delay_ms": 50, "num_events": 3, "interval_ms": 40}}).encode()
            exchange = await client.exchange("POST", "/", body=body, sink=sink)
            await client.close()
            return exchange.sent_ns, sink.sent_ns

    sent, stamps = asyncio.run(one_stream())
    assert len(stamps) == 3
    assert [stamp - sent >= (50 + 40 * number) * 1e6 for number, stamp in enumerate(stamps)] == [True] * 3


def test_streams_count_the_most_at_once_since_there_last_was_none() -> None:
    streams = Streams()
    streams.begin()
    streams.begin()
    streams.end()
    streams.begin()
    assert streams.most == 2
    streams.end()
    streams.end()
    streams.begin()
    assert streams.most == 1


def test_streams_that_did_not_run_at_once_are_refused() -> None:
    async def three_on_two_connections() -> None:
        async with timed_server() as base:
            client = HttpClient(base, clock=time.monotonic_ns)
            lonely = _OneAtATime(base)
            try:
                await calibration._together([client, lonely, lonely], SHORT)
            finally:
                await client.close()
                await lonely.close()

    with pytest.raises(TargetError, match=r"^3 streams were asked for, but at most 2 ran at once: .*ask for fewer$"):
        asyncio.run(three_on_two_connections())


def test_a_machine_that_stood_still_is_told_as_that_and_not_as_a_server_that_is_silent() -> None:
    class Silent(HttpClient):
        async def exchange(self, *args: object, **options: object) -> object:  # type: ignore[override]
            raise TargetError("http://127.0.0.1:1 gave no complete answer within 30 s")

    async def one_silent() -> None:
        async with timed_server() as base:
            await calibration._together([Silent(base, clock=time.monotonic_ns)], SHORT)

    with pytest.raises(TargetError, match=r"built-in server .* within 30 s; this machine stood still or is too busy"):
        asyncio.run(one_silent())


class _OneAtATime(HttpClient):
    """Lets a request wait for the one before it."""

    def __init__(self, base: BaseUrl) -> None:
        super().__init__(base, clock=time.monotonic_ns)
        self._turn = asyncio.Lock()

    async def exchange(self, *args: object, **options: object) -> object:  # type: ignore[override]
        async with self._turn:
            return await super().exchange(*args, **options)  # type: ignore[arg-type]


def test_more_streams_than_open_files_are_refused_before_anything_starts() -> None:
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    with pytest.raises(ConfigError, match=r"streams need as many open files, and \d+ are allowed: raise the limit"):
        asyncio.run(calibrate((limit,)))
    with pytest.raises(ConfigError, match="at least 1"):
        asyncio.run(calibrate((0,)))


def test_the_server_ends_when_whoever_started_it_is_killed() -> None:
    starter = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import subprocess, sys; server = subprocess.Popen([sys.executable, '-m', "
            "'anaphora.lab.calibration.timed_server'], stdin=subprocess.PIPE); print(server.pid, flush=True); "
            "server.wait()",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert starter.stdout is not None
    server_pid = int(starter.stdout.readline())
    assert starter.stdout.readline().strip().isdigit()  # the server's port: it serves
    starter.send_signal(signal.SIGKILL)
    starter.wait()
    starter.stdout.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and _is_alive(server_pid):
        time.sleep(0.02)
    assert not _is_alive(server_pid)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_spread_is_in_milliseconds() -> None:
    assert Spread.of([(1_000_000, False), (2_000_000, False), (3_000_000, True)]) == Spread(2.0, 2.98, 3, 33.33)


def test_the_command_prints_json_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["calibrate", "--concurrency", "30", "--repeats", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ttft_error_ms"]["30"]["num_samples"] == 30
    assert told["event_error_ms"]["30"]["num_samples"] == 30 * 40
    assert run(["calibrate", "--concurrency", "two"]) == 2
    assert "'two' is no list of numbers like 1,64,256" in capsys.readouterr().err


@pytest.mark.usefixtures("heeds_sigint")
def test_ctrl_c_reaches_the_command_and_not_its_server(tmp_path: Path) -> None:
    """A terminal sends it to both; the server would answer with a traceback."""
    command = [sys.executable, "-m", "anaphora", "calibrate", "--concurrency", "1", "--repeats", "200"]
    with (tmp_path / "said").open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        while not server_of(process.pid) and process.poll() is None:
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait() == 130
    assert "Traceback" not in (tmp_path / "said").read_text()


def server_of(pid: int) -> bool:
    """Whether a child of the process runs our timed server already."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return any(b"timed_server" in Path(f"/proc/{child}/cmdline").read_bytes() for child in children)
    except OSError:
        return False
