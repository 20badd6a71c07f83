"""Where prompts part: the public cases, every cause, and the search for the nearest earlier request."""

import json
import random
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.cli.main import run
from anaphora.errors import TraceError
from anaphora.explain.causes import CASE, HISTORY, KEY_ORDER, OTHER_KIND, OTHER_TEXT, TOOL_ORDER, UNICODE, WHITESPACE
from anaphora.explain.divergence import Divergence, divergence
from anaphora.explain.parts import parts_of, shared_length
from anaphora.explain.prompts import LoggedRequest, compare, group, read_requests
from anaphora.traces.findings import FindingKind, Findings

CASES = Path(__file__).parent / "cases"


def compared(name: str) -> list[Any]:
    return compare(read_requests(CASES / name, Findings()))


def chat(*texts: str, **fields: Any) -> dict[str, Any]:
    """A system message, then user and assistant in turn."""
    roles = ["system", *(["user", "assistant"] * len(texts))]
    return {"messages": [{"role": r, "content": t} for r, t in zip(roles, texts, strict=False)], **fields}


def part(one: dict[str, Any], other: dict[str, Any]) -> Divergence:
    return divergence(parts_of(one), parts_of(other))


def test_a_clock_near_the_start_of_the_system_prompt() -> None:
    comparisons = compared("clock-first.jsonl")
    assert [(c.divergence.path, c.divergence.at) for c in comparisons] == [("messages[0] (system)", 60)] * 5
    assert {c.divergence.cause.name for c in comparisons} == {"date and time"}
    (found,) = group(comparisons)
    assert (len(found.lines), found.is_natural) == (5, False)
    assert found.num_lost > 0.99 * found.num_chars


def test_a_clock_in_the_last_message_loses_nothing() -> None:
    comparisons = compared("clock-last.jsonl")
    assert all(c.divergence.cause.is_natural for c in comparisons)
    assert all(c.divergence.num_shared >= 8550 for c in comparisons)


def test_a_date_breaks_once_a_day() -> None:
    found = [c.divergence for c in compared("date-only.jsonl")]
    assert [(one.cause.name, one.cause.is_natural) for one in found] == [("another last message", True)] * 4 + [
        ("date", False)
    ]
    assert (found[-1].path, found[-1].at) == ("messages[0] (system)", 49)


def test_tools_in_another_order_lacking_and_the_same() -> None:
    second, third, fourth = compared("tools.jsonl")
    assert (second.divergence.path, second.divergence.cause) == ("tools[0]", TOOL_ORDER)
    assert (third.earlier_line, third.divergence.path) == (1, "messages[1] (user)")
    assert third.divergence.cause.is_natural
    assert (fourth.divergence.path, fourth.divergence.cause.name) == ("tools[3]", "other tools (list missing)")


RULES = "Be brief. " * 30


@pytest.mark.parametrize(
    ("one", "other", "cause"),
    [
        ("Now: 2026-03-01T10:00:00Z. " + RULES, "Now: 2026-03-01T10:00:07Z. " + RULES, "date and time"),
        ("It is 10:00 am. " + RULES, "It is 10:05 am. " + RULES, "time of day"),
        (
            "Trace 123e4567-e89b-42d3-a456-426614174000. " + RULES,
            "Trace 123e4567-e89b-42d3-a456-42661417400f. " + RULES,
            "UUID",
        ),
        ("Request 1041. " + RULES, "Request 1042. " + RULES, "number"),
        ("billing cch=a81f3 " + RULES, "billing cch=b81f3 " + RULES, "identifier"),
        ("Hello  there. " + RULES, "Hello there. " + RULES, WHITESPACE.name),
        ("caf\u00e9 " + RULES, unicodedata.normalize("NFD", "caf\u00e9 ") + RULES, UNICODE.name),
        ("HELLO. " + RULES, "Hello. " + RULES, CASE.name),
        ('{"a": 1, "b": "x"}', '{"b": "x", "a": 1}', KEY_ORDER.name),
        ("Be kind. " + RULES, "Do less. " + RULES, OTHER_TEXT.name),
    ],
)
def test_every_cause_in_a_system_prompt_is_named(one: str, other: str, cause: str) -> None:
    found = part(chat(one, "hi"), chat(other, "hi"))
    assert (found.path, found.cause.name) == ("messages[0] (system)", cause)
    assert found.cause.cure


def test_tools_that_differ_in_themselves() -> None:
    def tool(name: str, **fields: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": name, **fields}}

    base = chat("s", "q", tools=[tool("a", description="does a"), tool("b")])
    assert part(base, chat("s", "q", tools=[*base["tools"], tool("c")])).cause.name == "other tools (c added)"
    changed = part(base, chat("s", "q", tools=[tool("a", description="does A"), tool("b")]))
    assert (changed.path, changed.cause.name) == ("tools[0]", "another definition of the tool a")
    turned = {"function": {"description": "does a", "name": "a"}, "type": "function"}
    assert part(base, chat("s", "q", tools=[turned, tool("b")])).cause == KEY_ORDER
    assert part(base, chat("s", "q")).cause.name == "other tools (a, b missing)"
    odd = chat("s", "q", tools=["not a tool", 7])
    assert part(odd, chat("s", "q", tools=[7, "not a tool"])).cause == TOOL_ORDER


def test_conversations_that_go_on_are_edited_or_asked_again() -> None:
    base = chat("s", "q1", "a1", "q2")
    assert part(base, chat("s", "q1", "a1", "q2", "a2", "q3")).cause.name == "the conversation goes on"
    assert part(base, base).cause.name == "nothing: the same request again"
    assert part(base, chat("s", "q1", "a1", "another")).cause.name == "another last message"
    assert part(base, chat("s", "q1", "answer one", "q2")).cause == HISTORY
    assert part(base, chat("s", "q1")).cause == HISTORY
    dropped = {"messages": [base["messages"][0], *base["messages"][2:]]}
    assert part(base, dropped).cause == HISTORY


def test_settings_come_first() -> None:
    assert part(chat("s", "q", cache_salt="a"), chat("s", "q", cache_salt="b")).cause.name == "another cache_salt"
    assert part(chat("s", "q"), chat("s", "q", cache_salt="b")).cause.name == "another cache_salt"
    effort = part(chat("s", "q", reasoning_effort="low"), chat("s", "q", reasoning_effort="high"))
    assert effort.cause.name == "another reasoning effort"
    kwargs = part(chat("s", "q", chat_template_kwargs={"x": 1}), chat("s", "q", chat_template_kwargs={"x": 2}))
    assert kwargs.cause.name == "other template settings"


def test_completions_and_message_fields_are_read() -> None:
    assert part({"prompt": "abc"}, {"prompt": "abd"}).path == "prompt"
    assert part({"prompt": [1, 2]}, {"prompt": [1, 3]}).at == len("[1, ")
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "x1"}]}
    assert parts_of({"messages": [call]})[0].text == '{"tool_calls": [{"id": "x1"}]}'
    image = {"role": "user", "content": [{"type": "text", "text": "hi"}]}
    assert parts_of({"messages": [image, "no message"]})[0].text == '[{"type": "text", "text": "hi"}]'


@given(st.text(alphabet="ab", max_size=40), st.text(alphabet="ab", max_size=40))
def test_shared_length_is_that_of_a_plain_search(one: str, other: str) -> None:
    naive = next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    assert shared_length(one, other) == naive


@pytest.mark.parametrize("seed", range(5))
def test_the_nearest_earlier_request_is_found_as_by_trying_all(seed: int) -> None:
    rng = random.Random(seed)
    bodies = [chat(*("".join(rng.choices("ab", k=rng.randint(1, 6))) for _ in range(3))) for _ in range(60)]
    requests = [LoggedRequest(number, body) for number, body in enumerate(bodies, 1)]
    for one in compare(requests):
        later = parts_of(bodies[one.line - 1])
        shared = [divergence(parts_of(body), later).num_shared for body in bodies[: one.line - 1]]
        assert one.divergence.num_shared == max(shared)


def test_files_with_dirt(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    lines = ['{"body": {"messages": [{"role": "user", "content": "a"}]}}', "[1]", '{"x": 1}', "{cut", '{"prompt": "p"}']
    path.write_text("\n".join(lines) + "\n")
    findings = Findings()
    assert [request.line for request in read_requests(path, findings)] == [1, 5]
    assert findings.count(FindingKind.DAMAGED) == 3
    path.write_text("{}\n")
    with pytest.raises(TraceError, match="holds no request"):
        read_requests(path, Findings())


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ({"messages": 5}, "messages must be a list of objects"),
        ({"messages": "hello"}, "messages must be a list of objects"),
        ({"messages": {"role": "user"}}, "messages must be a list of objects"),
        ({"messages": [{"role": "user", "content": "a"}, 5]}, "messages must be a list of objects"),
        ({"messages": [], "prompt": 5}, "prompt must be a text or a list"),
        ({"messages": [{"role": "user", "content": "a"}], "tools": 5}, "tools must be a list"),
        ({"prompt": "a", "tools": {"name": "x"}}, "tools must be a list"),
        ({}, "neither messages nor a prompt"),
        (5, "neither messages nor a prompt"),
    ],
)
def test_a_row_that_is_no_request_is_left_out_with_the_reason(tmp_path: Path, body: Any, fault: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(f'{json.dumps(body)}\n{{"prompt": "p"}}\n')
    findings = Findings()
    assert [request.line for request in read_requests(path, findings)] == [2]
    assert [(found.kind, found.detail) for found in findings.all()] == [(FindingKind.DAMAGED, fault)]
    path.write_text(json.dumps(body))
    with pytest.raises(TraceError, match=rf"holds no request \(left out: .*{fault}\)"):
        read_requests(path, Findings())


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "it is empty"), (b"\x1f\x8b\x08\x00half", "compressed"), (b"a,b\n", "not a row")]
)
def test_a_file_without_requests_says_what_it_holds_instead(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=rf"holds no request \(.*{said}"):
        read_requests(path, Findings())


def test_a_chat_is_no_edited_text_completion() -> None:
    assert part({"prompt": "abc"}, chat("s", "q")).cause == OTHER_KIND
    assert part(chat("s", "q"), {"prompt": "abc"}).cause == OTHER_KIND


def test_one_request_alone_is_not_said_to_be_well(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"prompt": "p"}\n')
    assert run(["explain", str(path)]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "one request: there is no earlier one" in shown
    assert "no beginning is lost" not in shown


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["explain", str(CASES / "clock-first.jsonl")]) == 0
    shown = capsys.readouterr().out
    assert "date and time in messages[0] (system): 5 requests part there" in shown
    assert "10:01:07" in shown
    assert run(["explain", str(CASES / "clock-last.jsonl")]) == 0
    assert "no beginning is lost" in capsys.readouterr().out
    assert run(["explain", str(CASES / "tools.jsonl"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["num_requests"] == 4
    assert [one["path"] for one in told["comparisons"]] == ["tools[0]", "messages[1] (user)", "tools[3]"]
    assert [one["is_natural"] for one in told["groups"]] == [False, False, True]
    assert run(["explain", str(tmp_path / "none.jsonl")]) == 2
