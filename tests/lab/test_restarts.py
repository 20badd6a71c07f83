"""Off by restart: one server at a time, warm and filled again after each start, and predicted to the token."""

import asyncio
import json
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run as anaphora
from anaphora.errors import ConfigError, TargetError
from anaphora.lab.arms import Trial
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.refills import refills, with_restarts
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.targets.in_turn import InTurn
from anaphora.lab.targets.managed import ManagedServer
from anaphora.traces.records import RECORDS_FILE, read_run
from tests.lab.fakes import FakeServing, FakeTarget

FAKE = f"{sys.executable} -m tests.lab.fake_vllm {{port}} {{prefix_flag}}"
FEW = ["--prefix-tokens", "64", "--questions", "3", "--output-tokens", "2"]


def trial(arm: str, index: int, experiment: str = "switch", text: str = "same") -> Trial:
    return Trial(
        experiment=experiment,
        arm=arm,  # type: ignore[arg-type]
        phase="warmup" if experiment == "warmup" else "measured",
        group=1,
        index=index,
        label="why",
        request=ChatRequest(messages=({"role": "user", "content": text},), max_tokens=9),
    )


def test_each_start_is_warmed_and_what_the_on_arm_had_sent_is_sent_again_once() -> None:
    trials = [trial("on", 1), trial("on", 2), trial("off", 1), trial("off", 2), trial("on", 3), trial("on", 4)]
    warm = {"on": [trial("on", 0, "warmup")], "off": [trial("off", 0, "warmup")]}
    order = with_restarts(trials, warm)  # type: ignore[arg-type]
    assert [(one.phase, one.arm, one.index) for one in order] == [
        ("measured", "on", 1),
        ("measured", "on", 2),
        ("warmup", "off", 0),
        ("measured", "off", 1),
        ("measured", "off", 2),
        ("warmup", "on", 0),
        ("warmup", "on", 1),
        ("measured", "on", 3),
        ("measured", "on", 4),
    ]
    assert order[6].request.max_tokens == 1


def test_nothing_is_filled_again_for_an_experiment_that_is_over() -> None:
    before = [trial("on", 1, "switch"), trial("on", 1, "gradient", "other"), trial("off", 1, "gradient", "third")]
    found = refills(before, [trial("on", 2, "gradient")])
    assert [one.request.messages[0]["content"] for one in found] == ["other"]


def test_one_server_runs_at_a_time() -> None:
    lives: list[str] = []

    async def start(name: str, stack: AsyncExitStack) -> FakeTarget:
        lives.append(f"{name} starts")
        stack.callback(lives.append, f"{name} ends")
        return FakeTarget(FakeServing())

    async def go() -> None:
        in_turn = InTurn(start)
        assert [await in_turn.take_turn(name) for name in ("on", "on", "off", "on")] == [True, False, True, True]
        assert (list(in_turn), len(in_turn)) == (["on"], 1)
        await in_turn.close()
        assert "on" not in in_turn

    asyncio.run(go())
    assert lives == ["on starts", "on ends", "off starts", "off ends", "on starts", "on ends"]


def test_a_run_by_restart_misses_hits_and_goes_on_as_meant(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    command = ["bench", "switch", "--launch", FAKE, "--arms", "restart", *FEW]
    assert anaphora([*command, "--out", str(out)]) == 0
    assert_as_meant(out)
    logs = sorted(path.name for path in out.glob("server*.log"))
    assert logs == ["server-off.log", "server-on-2.log", "server-on.log"]
    path = out / RECORDS_FILE
    lines = path.read_text("utf-8").splitlines(keepends=True)
    num_before_off = next(number for number, line in enumerate(lines) if '"arm": "off"' in line)
    path.write_text("".join(lines[: num_before_off + 3]), "utf-8")  # its two warm-ups, and the first of the off arm
    assert anaphora([*command, "--resume", str(out)]) == 0
    assert "going on after 3 of 6 requests" in capsys.readouterr().err
    assert_as_meant(out)


def assert_as_meant(folder: Path) -> None:
    results: dict[str, Any] = json.loads((folder / "results.json").read_text("utf-8"))
    checks = {check["name"]: (check["status"], check["seen"]) for check in results["trust"]}
    for name in ("complete", "off requests missed", "on requests hit", "witnesses agree", "counters"):
        assert checks[name][0] == "ok", checks[name]
    assert "stopped and started again" in checks["off requests missed"][1]
    measured = [record for record in read_run(folder).requests if record.phase != "warmup"]
    assert [record.arm for record in measured] == ["on", "on", "off", "off", "off", "on"]
    assert all(record.server == record.arm for record in measured)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"target": "http://h"}, "--arms restart needs a server that is started for the run"),
        ({"launch": "serve {port}"}, r"--arms restart needs a place for the flag in --launch: write \{prefix_flag\}"),
    ],
)
def test_only_a_started_server_with_a_switch_is_restarted(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        BenchOptions(experiments=(SwitchSettings(),), arms="restart", **options)  # type: ignore[arg-type]


def test_load_is_not_put_on_by_restart(capsys: pytest.CaptureFixture[str]) -> None:
    assert anaphora(["bench", "load", "--launch", FAKE, "--arms", "restart"]) == 2
    assert "--arms restart is for experiments that send one request at a time" in capsys.readouterr().err


def test_a_server_that_ends_in_the_middle_says_why_and_not_that_it_should_be_started(tmp_path: Path) -> None:
    async def start(name: str, stack: AsyncExitStack) -> FakeTarget:
        command = ["sh", "-c", f"echo 'out of memory: {name}'"]
        server = await stack.enter_async_context(ManagedServer(command, tmp_path / "log"))
        while not server.last_words():
            await asyncio.sleep(0.01)
        return FakeTarget(FakeServing())

    async def go(error: Exception) -> None:
        async with InTurn(start) as in_turn:
            await in_turn.take_turn("off")
            raise error

    with pytest.raises(TargetError, match="the server that was started has ended: out of memory: off"):
        asyncio.run(go(TargetError("nothing answers at http://h")))
    with pytest.raises(ConfigError, match="something else"):
        asyncio.run(go(ConfigError("something else")))


def test_a_program_that_is_not_there_is_told_with_what_to_do(tmp_path: Path) -> None:
    async def go() -> None:
        async with ManagedServer(["no-such-program"], tmp_path / "log"):
            raise AssertionError

    with pytest.raises(TargetError, match=r"no-such-program cannot be started .No such file.*: install it, or"):
        asyncio.run(go())
