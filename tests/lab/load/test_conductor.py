"""Whole stages with real sending processes, on the built-in server whose service times are known."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.arms import Mechanism
from anaphora.lab.calibration.server_process import timed_server
from anaphora.lab.load.conductor import Conductor
from anaphora.lab.load.jobs import Address, ClosedShare, Job, OpenShare
from anaphora.lab.load.records import Beat, LoadRecord, Window
from anaphora.lab.load.tally import Pacing
from anaphora.lab.load.timings import ttft_ms
from anaphora.lab.load.workloads import Asking, VerbatimWorkload
from anaphora.traces.records import CounterReading
from tests.lab.load.records import stage

FIRST_MS, GAP_MS, NUM_EVENTS = 30.0, 5.0, 4
TIMED = {"timing": {"first_delay_ms": FIRST_MS, "num_events": NUM_EVENTS, "interval_ms": GAP_MS}}


@dataclass
class Quiet:
    """A watcher that remembers which phases there were, and may do something at the first answer."""

    at_first: Callable[[], None] = lambda: None
    phases: list[str] = field(default_factory=list)
    num_seen: int = 0

    def seen(self, record: LoadRecord) -> None:
        self.num_seen += 1
        if self.num_seen == 1:
            self.at_first()

    def elapsed(self, seconds: float, phase: str) -> None:
        if phase not in self.phases:
            self.phases.append(phase)


async def no_counters() -> CounterReading | None:
    return None


def job(base: BaseUrl, share: ClosedShare | OpenShare, *, process: int = 0) -> Job:
    asking = Asking(model="m", seed="s", mechanism=Mechanism.FLAG, must_miss=False, ignores_eos=False)
    workload = VerbatimWorkload(asking=asking, is_chat=True, prompts=[TIMED], output_tokens=[NUM_EVENTS])
    return Job(0, process, Address(base.api_url), workload, share)


def run_stage(
    shares: Sequence[ClosedShare | OpenShare], pacing: Pacing, watcher: Quiet | None = None
) -> tuple[Window, list[LoadRecord]]:
    written: list[LoadRecord | Beat | Window] = []

    async def conduct() -> Window:
        async with timed_server() as base:
            jobs = [job(base, share, process=number) for number, share in enumerate(shares)]
            conductor = Conductor(written.append, no_counters, watcher or Quiet())
            loop = "closed" if isinstance(shares[0], ClosedShare) else "open"
            return await conductor.run(stage(loop=loop), jobs, pacing)

    window = asyncio.run(conduct())
    assert written[-1] == window
    return window, [value for value in written if isinstance(value, LoadRecord)]


def test_a_closed_loop_of_two_processes_keeps_every_client_busy_from_before_to_after_its_window() -> None:
    watcher = Quiet()
    window, records = run_stage(
        [ClosedShare([0, 1], 3, 0.1), ClosedShare([2], 3, 0.1)], Pacing(0.1, 30.0, num_requests=9), watcher
    )
    assert window.stopped is None
    assert window.begin_ns is not None
    assert window.end_ns is not None
    for client in range(3):
        own = sorted((r for r in records if r.client == client), key=lambda r: r.sent_ns)
        assert {r.process for r in own} == {0 if client < 2 else 1}
        assert [r.number for r in own] == [client + 3 * n for n in range(len(own))]
        assert own[0].end_ns <= window.begin_ns  # answered once before the window
        assert own[-1].end_ns >= window.end_ns  # and still asking at its end
        assert all(later.intended_ns >= earlier.end_ns for earlier, later in pairwise(own))
    assert sum(window.begin_ns <= r.intended_ns < window.end_ns for r in records) >= 9
    assert watcher.phases == ["warm-up", "measuring", "cool-down"]


def test_known_service_times_come_back() -> None:
    _, records = run_stage([ClosedShare([0], 1, 0.0)], Pacing(0.0, 30.0, num_requests=5))
    for record in records:
        assert record.error is None
        assert len(record.token_offsets_ns) == NUM_EVENTS
        assert (ttft_ms(record) or 0) >= FIRST_MS  # a busy machine may be later, never earlier
        assert record.end_ns - record.sent_ns >= (FIRST_MS + (NUM_EVENTS - 1) * GAP_MS) * 1e6


def test_an_open_loop_sends_what_is_due_whatever_the_answers_take() -> None:
    schedule = [(0.01 * n, n) for n in range(60)]
    window, records = run_stage([OpenShare(schedule[::2], 64), OpenShare(schedule[1::2], 64)], Pacing(0.1, 0.3))
    assert window.num_due == 30
    assert window.begin_ns is not None
    start_ns = window.begin_ns - 100_000_000
    due = {start_ns + round(1e9 * offset): number for offset, number in schedule}
    assert all(due[record.intended_ns] == record.number for record in records)
    assert all(record.sent_ns >= record.intended_ns for record in records)
    measured = {record.number for record in records if window.begin_ns <= record.intended_ns < (window.end_ns or 0)}
    assert measured == set(range(10, 40))


def test_a_server_that_falls_behind_ends_an_open_loop_with_the_reason() -> None:
    window, records = run_stage([OpenShare([(0.0, n) for n in range(20)], 4)], Pacing(0.0, 10.0))
    assert "more requests were open at once" in (window.stopped or "")
    assert sum(record.abandoned for record in records) == 4
    assert all(record.error == "the run was stopped" for record in records if record.abandoned)


def test_a_server_that_only_fails_ends_the_stage_with_its_words() -> None:
    async def conduct() -> Window:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b'HTTP/1.1 500 X\r\nContent-Length: 24\r\n\r\n{"error":"out of order"}')
                await reader.read(1 << 16)

        server = await asyncio.start_server(_quietly(refuse), "127.0.0.1", 0)
        async with server:
            base = BaseUrl.parse(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
            conductor = Conductor(lambda value: None, no_counters, Quiet())
            return await conductor.run(stage(), [job(base, ClosedShare([0, 1], 2, 0.0))], Pacing(0.0, 60.0))

    window = asyncio.run(conduct())
    assert "requests in a row failed, the last with: HTTP 500: out of order" in (window.stopped or "")


def _quietly(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    async def quiet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    return quiet


def test_nobody_at_the_address_is_said_before_anything_is_sent() -> None:
    async def conduct() -> None:
        base = BaseUrl.parse("http://127.0.0.1:9")
        conductor = Conductor(lambda value: None, no_counters, Quiet())
        await conductor.run(stage(), [job(base, ClosedShare([0], 1, 0.0))], Pacing(0.0, 1.0))

    with pytest.raises(TargetError, match="nothing answers at"):
        asyncio.run(conduct())


def test_an_interrupted_stage_keeps_its_records_and_says_where_its_window_ended() -> None:
    written: list[LoadRecord | Beat | Window] = []

    async def conduct() -> None:
        async with timed_server() as base:
            task: asyncio.Task[Window] | None = None

            def interrupt() -> None:
                assert task is not None
                task.cancel()

            watcher = Quiet(at_first=interrupt)
            conductor = Conductor(written.append, no_counters, watcher)
            task = asyncio.create_task(conductor.run(stage(), [job(base, ClosedShare([0], 1, 0.0))], Pacing(0.0, 60.0)))
            await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(conduct())
    window = written[-1]
    assert isinstance(window, Window)
    assert window.stopped == "the run was stopped"
    assert any(isinstance(value, LoadRecord) and not value.abandoned for value in written)
