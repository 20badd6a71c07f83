"""A server of ours in a process of its own, for as long as it is needed."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl

_STOP_LIMIT_S = 5.0
TIMED_SERVER = "anaphora.lab.calibration.timed_server"


@asynccontextmanager
async def timed_server(module: str = TIMED_SERVER) -> AsyncIterator[BaseUrl]:
    """The server's process, run from a module that writes its port on a line and serves until its standard input ends.

    It ends with this block, and by itself if this process is killed. Raises :class:`TargetError` if it does not start.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the caller, who ends it
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        line = await process.stdout.readline()
        if not line.strip().isdigit():
            raise TargetError("the server with known timings did not start")
        yield BaseUrl.parse(f"http://127.0.0.1:{int(line)}")
    finally:
        process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_LIMIT_S)
        except TimeoutError:
            process.kill()
            await process.wait()
