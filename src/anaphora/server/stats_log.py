"""A line in the log every few seconds while there is something to do."""

import asyncio
import logging
import time
from collections.abc import Callable

from anaphora.engine import EngineStats

INTERVAL_S = 5.0
_log = logging.getLogger(__name__)


async def log_stats(stats: Callable[[], EngineStats], interval_s: float = INTERVAL_S) -> None:
    """Log what went on in each interval, until cancelled; nothing went on, nothing is logged."""
    before, then = stats(), time.monotonic()
    while True:
        await asyncio.sleep(interval_s)
        after, now = stats(), time.monotonic()
        line = stats_line(before, after, now - then)
        if line is not None:
            _log.info(line)
        before, then = after, now


def stats_line(before: EngineStats, after: EngineStats, seconds: float) -> str | None:
    """What happened between two pictures ``seconds`` apart, or ``None`` if nothing did."""
    prompt = after.num_prompt_tokens - before.num_prompt_tokens
    output = after.num_output_tokens - before.num_output_tokens
    if not (prompt or output or after.num_running or after.num_waiting):
        return None
    queried = after.num_queried_tokens - before.num_queried_tokens
    cached = after.num_cached_tokens - before.num_cached_tokens
    hits = f"{100 * cached / queried:.1f}% of {queried} prompt tokens" if queried else "none asked for"
    return (
        f"running {after.num_running}, waiting {after.num_waiting}, KV use {100 * after.kv_usage:.1f}%, "
        f"prefix cache hits: {hits}, output {output / seconds:.1f} tokens/s"
    )
