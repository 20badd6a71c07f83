"""The counters after a request: some servers publish them a moment later than the answer."""

import asyncio

from anaphora.lab.targets.base import Target
from anaphora.traces.records import CounterReading

TRIES = 8
_PAUSE_S = 0.02


async def settled_counters(
    target: Target, before: CounterReading | None, *, tries: int = TRIES
) -> tuple[CounterReading | None, bool]:
    """The reading once it includes what was asked since ``before``, and whether it moved at all.

    A server whose cache is off never counts: after ``tries`` readings it is taken as it stands. ``None``: there are no
    counters.
    """
    reading = None
    for _ in range(tries):
        reading = await target.read_counters()
        if reading is None or before is None or reading.queried > before.queried:
            return reading, True
        await asyncio.sleep(_PAUSE_S if tries > 1 else 0)
    return reading, False
