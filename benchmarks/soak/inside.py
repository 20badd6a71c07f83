"""The server with a window: on SIGUSR1 it appends a line about its tasks, objects and heap to a file.

python -m benchmarks.soak.inside FILE serve MODEL --port 8000
"""

import asyncio
import ctypes
import gc
import json
import signal
import sys
from pathlib import Path
from types import FrameType


class _Mallinfo2(ctypes.Structure):
    """glibc's ``struct mallinfo2``: sizes in bytes, over all arenas."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def heap_mib() -> dict[str, float]:
    """What malloc has handed out (``used``), and what it keeps for later (``kept``), in MiB."""
    library = ctypes.CDLL("libc.so.6")
    library.mallinfo2.restype = _Mallinfo2
    info = library.mallinfo2()
    return {"used": round((info.uordblks + info.hblkhd) / 2**20, 2), "kept": round(info.fordblks / 2**20, 2)}


def picture() -> dict[str, object]:
    """Tasks of the event loop, objects that the cycle collector knows (after a collection), and the heap."""
    gc.collect()
    return {"tasks": len(asyncio.all_tasks()), "objects": len(gc.get_objects()), "heap_mib": heap_mib()}


def main() -> None:
    """Serve as the command line says."""
    file = Path(sys.argv.pop(1))

    def look(signum: int, frame: FrameType | None) -> None:
        with file.open("a") as out:
            out.write(json.dumps(picture()) + "\n")

    signal.signal(signal.SIGUSR1, look)
    from anaphora.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
