"""Questions to the core: every asker gets an answer, an error, or has gone."""

import asyncio
from typing import Any

import pytest

from anaphora.engine.engine_core import EngineCore
from anaphora.engine.questions import Questions
from anaphora.errors import EngineDeadError, PinError
from anaphora.types import Namespace
from tests.engine.harness import memory_core


def test_answers_and_errors_reach_who_asked_and_nobody_else() -> None:
    async def run() -> None:
        core, _ = memory_core()
        commands: list[Any] = []
        questions = Questions(commands.append, lambda call, *args: call(*args))
        asked = [
            asyncio.create_task(questions.ask(question))
            for question in (EngineCore.reset_prefix_cache, lambda core: core.pin("p", Namespace(""), [1] * 8))
        ]
        gone = asyncio.create_task(questions.ask(EngineCore.pins))
        left = asyncio.create_task(questions.ask(EngineCore.pins))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.sleep(0)
        assert [command(core) for command in commands[:3]] == [[], [], []]
        assert await asked[0] is True
        with pytest.raises(PinError, match="nothing of this prefix is cached"):
            await asked[1]
        questions.end(EngineDeadError("over"))
        for waiting in (left, questions.ask(EngineCore.pins)):
            with pytest.raises(EngineDeadError, match="over"):
                await waiting

    asyncio.run(run())
