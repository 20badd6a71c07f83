"""Models without system messages: found out by a first answer, and then asked without them, everywhere."""

import asyncio
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run
from anaphora.lab.address import BaseUrl
from anaphora.lab.arms import Mechanism
from anaphora.lab.load.workloads import Asking
from anaphora.lab.targets.base import Message
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.targets.system_role import SENTENCE, has_system, without_system
from anaphora.traces.records import read_run
from tests.lab.fakes import FakeServing, openai_routes, serving_at
from tests.lab.load.test_session import SHORT, calibrated
from tests.lab.test_session import served

__all__ = ["calibrated"]  # a fixture


def said(role: str, content: Any) -> Message:
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("messages", "taken"),
    [
        ([said("user", "u")], [said("user", "u")]),
        ([said("system", "s"), said("user", "u")], [said("user", "s\n\nu")]),
        ([said("system", "s"), said("developer", "d"), said("user", "u")], [said("user", "s\n\nd\n\nu")]),
        (
            [said("system", "s"), said("user", "u"), said("assistant", "a"), said("user", "v")],
            [said("user", "s\n\nu"), said("assistant", "a"), said("user", "v")],
        ),
        (
            [said("system", [{"type": "text", "text": "s"}]), said("user", [{"type": "text", "text": "u"}])],
            [said("user", [{"type": "text", "text": "s\n\n"}, {"type": "text", "text": "u"}])],
        ),
        ([said("system", "s")], [said("user", "s")]),
        ([], []),
    ],
)
def test_what_a_system_message_says_goes_to_the_front_of_the_users(
    messages: list[Message], taken: list[Message]
) -> None:
    assert without_system(messages) == taken
    assert not has_system(without_system(messages))


@pytest.mark.parametrize(
    ("serving", "takes_system", "num_asked"),
    [
        (FakeServing(), True, 1),
        (FakeServing(takes_system=False), False, 2),
        (FakeServing(fails=lambda n: "broken"), True, 2),  # something else is wrong with it
    ],
)
def test_the_first_answer_tells(serving: FakeServing, takes_system: bool, num_asked: int) -> None:
    async def ask() -> OpenAITarget:
        async with serving_at(openai_routes(serving)) as port:
            target = OpenAITarget(BaseUrl.parse(f"http://127.0.0.1:{port}"), clock=itertools.count(1).__next__)
            try:
                await target.wait_until_answering(limit_s=30.0)
            finally:
                await target.close()
            return target

    target = asyncio.run(ask())
    assert (target.takes_system, serving.num_requests, len(target.asked_before)) == (takes_system, num_asked, 1)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_run_on_such_a_model_hits_as_predicted_and_says_so(tmp_path: Path, lang: str) -> None:
    ask = ["--prefix-tokens", "64", "--questions", "3", "--output-tokens", "2", "--lang", lang]
    with served(FakeServing(takes_system=False)) as url:
        assert run(["bench", "switch", "--target", url, *ask, "--out", str(tmp_path / "r")]) == 0
    found = read_run(tmp_path / "r")
    assert found.header.target["takes_system"] is False
    assert found.header.settings["exact_lengths"]
    on = [one for one in found.requests if (one.arm, one.phase) == ("on", "measured")]
    assert all(one.error is None and (one.predicted_cached_tokens or 0) > 0 for one in on)
    for one in on:
        assert one.usage is not None
        assert one.usage["prompt_tokens_details"]["cached_tokens"] == one.predicted_cached_tokens
    page = (tmp_path / "r" / "report.html").read_text("utf-8")
    assert ("The model takes no system message" if lang == "en" else "这个模型没有系统消息") in page
    assert SENTENCE.endswith("user's.")


def test_a_load_on_such_a_model(tmp_path: Path) -> None:
    with served(FakeServing(takes_system=False, pause_s=0.01)) as url:
        command = ["bench", "load", "--target", url, "--concurrency", "1", "--prefix-tokens", "48", *SHORT]
        assert run([*command, "--out", str(tmp_path / "r")]) == 0
    lines = [json.loads(line) for line in (tmp_path / "r" / "load.jsonl").read_text("utf-8").splitlines()]
    asked = [line for line in lines if line["kind"] == "request"]
    assert asked
    assert {line["error"] for line in asked} == {None}


def test_bodies_of_a_load_have_none() -> None:
    asking = Asking(
        model="m", seed="s", mechanism=Mechanism.FLAG, must_miss=False, ignores_eos=False, takes_system=False
    )
    body = json.loads(asking.body(1, 4, {"messages": [said("system", "s"), said("user", "u")]}))
    assert body["messages"] == [said("user", "s\n\nu")]
    assert json.loads(asking.body(1, 4, {"prompt": "p"}))["prompt"] == "p"


@pytest.mark.parametrize("has_tokenizer", [True, False])
@pytest.mark.parametrize("command", [["switch", "--questions", "3"], ["load", "--rate", "10", "--unique-tokens", "24"]])
def test_a_dry_run_counts_with_the_servers_tokenizer_there_too(
    command: list[str], has_tokenizer: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """As many tokens as on a model with system messages, but those of a second message's frame; nothing is asked."""
    shown = {}
    for takes_system in (True, False):
        serving = FakeServing(takes_system=takes_system, has_tokenizer=has_tokenizer)
        with served(serving) as url:
            ask = ["--target", url, "--prefix-tokens", "64", "--output-tokens", "2", "--dry-run"]
            assert run(["bench", *command, *ask]) == 0
        assert serving.num_requests == 0
        shown[takes_system] = capsys.readouterr()
        assert ("estimated at four" in " ".join(shown[takes_system].out.split())) is not has_tokenizer
    assert ("takes no system message" in shown[False].err) is has_tokenizer
    assert "takes no system message" not in shown[True].err
