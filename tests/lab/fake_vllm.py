"""The fake as a process that `--launch` starts: ``python -m tests.lab.fake_vllm PORT --[no-]enable-prefix-caching``."""

import asyncio
import sys

from tests.lab.fakes import FakeServing, openai_routes, serving_at


async def serve(port: int, *, caching: bool) -> None:
    """Until the process is told to end."""
    async with serving_at(openai_routes(FakeServing(caching=caching)), port=port):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), caching="--enable-prefix-caching" in sys.argv))
