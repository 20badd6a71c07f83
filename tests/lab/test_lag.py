"""The client watches its own loop."""

import asyncio

from anaphora.lab.lag import LoopLag


def test_a_loop_that_is_held_up_shows() -> None:
    readings = iter([0, 10_000_000, 10_000_000, 45_000_000])  # 10 ms as wished, then 35 ms instead of 10

    async def run() -> int:
        async with LoopLag(lambda: next(readings, 45_000_000)) as lag:
            while lag.worst_ns == 0:
                await asyncio.sleep(0.001)
        return lag.worst_ns

    assert asyncio.run(run()) == 25_000_000
