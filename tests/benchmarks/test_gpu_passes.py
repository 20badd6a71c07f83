"""Versions of the engine by turns: what is taken for what, and that each tree is asked."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from benchmarks.gpu import passes
from benchmarks.serving.instant_device import load_instant_device


def test_what_a_loop_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passes, "NUM_WAVES", 1)
    loop = passes.Loop(load_instant_device(passes.VOCABULARY).core)
    cold = loop.colds(1100)
    assert cold["host_ms"] > 0
    assert 0 < cold["least_ms"] <= cold["median_ms"]
    assert len(loop._launching_s) == passes.NUM_COLDS, "the first prompt warms up, and none is cached"
    streams = loop.streams(200)
    assert 0 < streams["decode_step_ms"] < streams["all_ms"], "a part of it"


def test_trees_take_turns_in_processes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def run(command: list[str], env: dict[str, str], **_: Any) -> Any:
        asked.append(env["PYTHONPATH"].split(":")[0])
        assert command[2:] == ["m", "--this"]
        return SimpleNamespace(stdout=b"a line before\n" + json.dumps({"cold": {}}).encode())

    monkeypatch.setattr(subprocess, "run", run)
    rows = passes.in_turns("m", {"old": Path("/o"), "new": Path("/n")}, rounds=2)
    assert asked == ["/o/src", "/n/src", "/o/src", "/n/src"]
    assert [(row["tree"], row["round"]) for row in rows] == [("old", 0), ("new", 0), ("old", 1), ("new", 1)]
