"""A client's own requests before the doctor (cases 09 and 10, and requests that bypass the cache)."""

import json
from pathlib import Path
from typing import Any

import pytest

from anaphora.cli.main import run
from anaphora.lab.doctor.check import Status
from anaphora.lab.doctor.prompts import check_prompts

CASES = Path(__file__).parents[2] / "explain" / "cases"


def written(tmp_path: Path, *bodies: Any) -> Path:
    path = tmp_path / "requests.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    return path


def chat(system: str, question: str, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, {"role": "user", "content": question}]
    return {"model": "m", "messages": messages, **fields}


def test_a_clock_at_the_beginning_is_a_fault_with_both_windows() -> None:
    requests, prompts = check_prompts(CASES / "clock-first.jsonl")
    assert requests.status is Status.OK
    assert prompts.status is Status.FAULT
    assert "at character 60 of messages[0] (system) by date and time" in prompts.seen
    assert "10:00:00" in prompts.seen
    assert "10:01:07" in prompts.seen
    assert "last message" in prompts.fix


def test_a_clock_at_the_end_is_none() -> None:
    assert [check.status for check in check_prompts(CASES / "clock-last.jsonl")] == [Status.OK, Status.OK]


def test_small_losses_warn_and_further_places_are_counted() -> None:
    _, prompts = check_prompts(CASES / "tools.jsonl")
    assert prompts.status is Status.WARNING
    assert prompts.fix == "sort the tools by name before every request"
    assert "1 more places" in prompts.seen


@pytest.mark.parametrize("fields", [{"prompt_logprobs": 1}, {"echo": True, "logprobs": 1}])
def test_log_probabilities_of_the_prompt_bypass_the_cache(fields: dict[str, Any], tmp_path: Path) -> None:
    requests, _ = check_prompts(written(tmp_path, chat("s", "a"), chat("s", "b", **fields)))
    assert requests.status is Status.FAULT
    assert "1 of 2 ask for log-probabilities of the prompt (first in line 2)" in requests.seen


@pytest.mark.parametrize("fields", [{"logprobs": True}, {"echo": True}, {"logprobs": False, "echo": True}])
def test_other_log_probabilities_do_not(fields: dict[str, Any], tmp_path: Path) -> None:
    assert check_prompts(written(tmp_path, chat("s", "a", **fields)))[0].status is Status.OK


def test_one_request_and_damaged_lines(tmp_path: Path) -> None:
    path = written(tmp_path, chat("s", "a"), {"no": "prompt"})
    _, prompts = check_prompts(path)
    assert prompts.status is Status.NOT_APPLICABLE
    assert "1 × not a row of this format (line 2)" in prompts.seen


def test_the_command_needs_no_server(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["doctor", "--prompts", str(CASES / "clock-first.jsonl"), "--json"]) == 1
    told = json.loads(capsys.readouterr().out)["checks"]
    assert [check["name"] for check in told] == ["requests", "prompts"]
    assert run(["doctor", "--prompts", str(CASES / "clock-last.jsonl")]) == 0
    (tmp_path / "empty.jsonl").write_text("")
    assert run(["doctor", "--prompts", str(tmp_path / "empty.jsonl")]) == 2
    assert "holds no request" in capsys.readouterr().err
