"""Stamps of the kernel: never early, not late when the reader is, and silent where they cannot be trusted."""

import asyncio
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from anaphora.lab import kernel_stamps
from anaphora.lab.connection import Connection
from anaphora.lab.kernel_stamps import KERNEL_NOTES_ARRIVALS, StampedSocket

SETTLE_S = 0.2
WAKE_LIMIT_S = 10.0


@pytest.fixture(scope="module")
def noting_kernel() -> Iterator[None]:
    """A kernel begins to note arrivals a moment after the first socket has asked, and goes on while there is one."""
    if not KERNEL_NOTES_ARRIVALS:
        pytest.skip("this system's kernel notes no arrivals")
    here, there = _pair()
    stamped = StampedSocket(here, time.monotonic_ns)
    deadline = time.monotonic() + WAKE_LIMIT_S
    while True:
        there.send(b"x")
        sent = time.monotonic_ns()
        time.sleep(0.01)
        read = stamped.read()
        if read is not None and read[0] - sent < 10_000_000:
            break
        assert time.monotonic() < deadline, "the kernel does not note arrivals"
    yield
    for one in (stamped, here, there):
        one.close()


@pytest.mark.usefixtures("noting_kernel")
def test_a_late_reader_still_learns_when_the_bytes_came() -> None:
    here, there = _pair()
    stamped = StampedSocket(here, time.monotonic_ns)
    assert stamped.read() is None
    before = time.monotonic_ns()
    there.send(b"early")
    after = time.monotonic_ns()
    time.sleep(SETTLE_S)
    read = stamped.read()
    assert read is not None
    assert read[1] == b"early"
    assert before <= read[0]
    assert read[0] - after < SETTLE_S * 1e9  # and not when it was read
    there.close()
    end = stamped.read()
    assert end is not None
    assert end[1] == b""
    stamped.close()
    here.close()


@pytest.mark.usefixtures("noting_kernel")
def test_a_blocked_event_loop_delays_no_stamp() -> None:
    async def stamps() -> tuple[int, int, int]:
        here, there = _pair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(time.monotonic_ns), sock=here)
        there.send(b"x")
        sent = time.monotonic_ns()
        time.sleep(SETTLE_S)
        arrival = await connection.arrival()
        assert arrival is not None
        there.close()
        assert await connection.arrival() is None
        assert connection.lost_ns is not None
        connection.close()
        return sent, arrival[0], time.monotonic_ns()

    sent, stamp, now = asyncio.run(stamps())
    assert stamp - sent < SETTLE_S * 1e9 <= now - sent


def test_a_clock_of_another_kind_is_read_in_the_loop() -> None:
    async def stamp() -> tuple[int, bytes] | None:
        here, there = _pair()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: Connection(lambda: 77), sock=here)
        there.send(b"x")
        arrival = await connection.arrival()
        connection.close()
        there.close()
        return arrival

    assert asyncio.run(stamp()) == (77, b"x")


@pytest.mark.parametrize("seconds_ago", [-3600, 3600])
def test_a_note_that_a_changed_clock_has_falsified_is_not_used(seconds_ago: int) -> None:
    note = struct.pack("@qq", int(time.time()) - seconds_ago, 0)
    assert kernel_stamps._age_ns([(socket.SOL_SOCKET, 35, note)]) == 0


def test_no_note_means_no_age() -> None:
    assert kernel_stamps._age_ns([]) == 0
    assert kernel_stamps._age_ns([(socket.SOL_SOCKET, 1, b"\0" * 16), (socket.SOL_SOCKET, 35, b"short")]) == 0


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = socket.create_connection(listener.getsockname())
        there, _ = listener.accept()
    return here, there
