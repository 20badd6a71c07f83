"""The log line: what went on, and silence when nothing did."""

import asyncio
import contextlib
import logging
from pathlib import Path

import pytest

from anaphora.engine import EngineStats
from anaphora.server.stats_log import log_stats, stats_line
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.server.scripted_backend import ScriptedBackend

BUSY = EngineStats(
    num_running=3,
    num_waiting=1,
    kv_usage=0.125,
    num_prompt_tokens=300,
    num_output_tokens=25,
    num_queried_tokens=300,
    num_cached_tokens=100,
)


def test_a_busy_interval_is_told() -> None:
    assert stats_line(EngineStats(num_prompt_tokens=100, num_queried_tokens=100), BUSY, 5.0) == (
        "running 3, waiting 1, KV use 12.5%, prefix cache hits: 50.0% of 200 prompt tokens, output 5.0 tokens/s"
    )


def test_no_lookups_have_no_rate() -> None:
    line = stats_line(EngineStats(), EngineStats(num_prompt_tokens=10), 1.0)
    assert line is not None
    assert "prefix cache hits: none asked for" in line


def test_an_idle_interval_is_not() -> None:
    done = EngineStats(num_prompt_tokens=10, num_output_tokens=5)
    assert stats_line(done, done, 5.0) is None


def test_the_log_has_a_line_per_busy_interval(tiny_model: Path, caplog: pytest.LogCaptureFixture) -> None:
    backend = ScriptedBackend(Tokenizer.from_folder(tiny_model))

    async def main() -> None:
        logging_task = asyncio.create_task(log_stats(backend.stats, 0.001))
        await asyncio.sleep(0.01)
        assert not caplog.messages
        backend.current = BUSY
        while not caplog.messages:
            await asyncio.sleep(0.001)
        logging_task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await logging_task

    with caplog.at_level(logging.INFO, "anaphora"):
        asyncio.run(main())
    assert caplog.messages[0].startswith("running 3, waiting 1")
