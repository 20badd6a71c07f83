"""When bytes reached this machine, as the kernel noted it: a stamp that no busy event loop and no sleeping core delays.

Linux notes the arrival of every packet for sockets that ask (``SO_TIMESTAMPNS``, see socket(7)). A read returns the
time of the last packet that it took from. The note is in the system's real-time clock: what is used of it is its age at
the read. Setting that clock in between could falsify the age, so one that cannot be is taken as none. The first socket
to ask wakes the kernel's stamping, some milliseconds later: connections are opened before anything is measured.
"""

import socket
import struct
import sys
import time

from anaphora.lab.clock import Clock

_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@qq")
_ANCILLARY_BYTES = socket.CMSG_SPACE(_TIMESPEC.size) if hasattr(socket, "CMSG_SPACE") else 0
_READ_BYTES = 256 << 10
_MAX_AGE_NS = 10_000_000_000

KERNEL_NOTES_ARRIVALS = sys.platform == "linux" and struct.calcsize("P") == 8


class StampedSocket:
    """A second handle on a connected TCP socket, to read from; who owns the first one closes it."""

    def __init__(self, connected: socket.socket, clock: Clock) -> None:
        self._socket = connected.dup()
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        self._clock = clock

    def fileno(self) -> int:
        return self._socket.fileno()

    def read(self) -> tuple[int, bytes] | None:
        """What has arrived, with its stamp; no bytes at the end of the stream, ``None`` if there is nothing to read.

        Raises :class:`OSError` when the connection broke.
        """
        try:
            data, ancillary, _, _ = self._socket.recvmsg(_READ_BYTES, _ANCILLARY_BYTES)
        except (BlockingIOError, InterruptedError):
            return None
        age_ns = _age_ns(ancillary)
        return self._clock() - age_ns, data  # the clock is read last: a stamp is never early

    def close(self) -> None:
        self._socket.close()


def _age_ns(ancillary: list[tuple[int, int, bytes]]) -> int:
    """How long ago the kernel took the packet in; 0 if it does not say or its clock was set meanwhile."""
    for level, kind, value in ancillary:
        if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS and len(value) >= _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack_from(value)
            age = time.clock_gettime_ns(time.CLOCK_REALTIME) - (seconds * 1_000_000_000 + nanoseconds)
            return age if 0 <= age < _MAX_AGE_NS else 0
    return 0
