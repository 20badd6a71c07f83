"""Answers as other servers were reported to send them (cases 01-04): which bytes stop the clock, and what counts as
success."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from anaphora.lab.answers import Answer, AnswerReader, error_in
from anaphora.lab.usage import read_usage
from anaphora.traces.records import RecordWriter, RunHeader, read_run
from tests.lab.records import TABLES, record

CASES = Path(__file__).parents[1] / "data" / "cases"
MS = 1_000_000


def play(script: Path, *, bytewise: bool = False) -> Answer:
    """The answer to a write script, each write arriving at the sum of its delays, in whole milliseconds."""
    reader = AnswerReader()
    reader.begin(200, {"content-type": "text/event-stream; charset=utf-8"})
    now = 0
    for line in script.read_text("utf-8").splitlines():
        write = json.loads(line)
        now += write["delay_ms"] * MS
        data = bytes.fromhex(write["hex"]) if "hex" in write else write["text"].encode()
        for piece in [data[i : i + 1] for i in range(len(data))] if bytewise else [data]:
            reader.feed(now, piece)
    return reader.finish(complete=True)


def whole(status: int, content_type: str, body: str) -> Answer:
    reader = AnswerReader()
    reader.begin(status, {"content-type": content_type})
    reader.feed(5, body.encode())
    return reader.finish(complete=True)


def scripts(case: str) -> list[Path]:
    return sorted(next(CASES.glob(f"{case}-*")).glob("*.jsonl"))


@pytest.mark.parametrize(
    "script", [s for case in ("01", "02", "03", "04") for s in scripts(case)], ids=lambda s: s.stem
)
def test_bytes_one_by_one_give_the_same_answer(script: Path) -> None:
    answer = play(script)
    assert play(script, bytewise=True) == answer
    assert answer.error is None
    assert answer.saw_done
    assert answer.streamed


def test_a_chunk_with_only_a_role_stops_no_clock() -> None:
    answer = play(scripts("01")[0])
    assert (answer.first_token_ns, answer.text) == (400 * MS, "Blue sky")
    assert (answer.num_token_events, answer.finish_reason) == (2, "stop")
    usage = read_usage(answer.usage)
    assert (usage.num_prompt_tokens, usage.num_completion_tokens, usage.num_cached_tokens) == (20, 2, None)


@pytest.mark.parametrize("script", scripts("02"), ids=lambda s: s.stem)
def test_a_chunk_with_only_usage_stops_no_clock_and_is_not_added_up(script: Path) -> None:
    answer = play(script)
    single = script.stem.startswith("e")
    assert answer.first_token_ns == 100 * MS
    assert answer.text == ("one" if single else "one two three")
    usage = read_usage(answer.usage)
    assert usage.num_prompt_tokens == 42
    assert usage.num_completion_tokens == (1 if single else 3)
    assert usage.num_cached_tokens == 32


@pytest.mark.parametrize("script", scripts("03"), ids=lambda s: s.stem)
def test_line_ends_and_missing_spaces_change_nothing(script: Path) -> None:
    answer = play(script)
    assert (answer.text, answer.num_token_events) == ("red green", 2)
    usage = read_usage(answer.usage)
    assert (usage.num_prompt_tokens, usage.num_completion_tokens) == (9, 2)
    assert answer.first_token_ns != answer.last_token_ns


@pytest.mark.parametrize(
    ("number", "first_answer_ms", "text", "finish"),
    [(0, 620, "Yes", "stop"), (1, 620, "Yes", "stop"), (2, None, "", "length"), (3, None, "", "tool_calls")],
)
def test_reasoning_and_tool_calls_are_tokens(number: int, first_answer_ms: int | None, text: str, finish: str) -> None:
    answer = play(scripts("04")[number])
    assert answer.first_token_ns == 120 * MS
    assert answer.first_answer_ns == (None if first_answer_ms is None else first_answer_ms * MS)
    assert (answer.text, answer.finish_reason, answer.error) == (text, finish, None)


def test_an_answer_that_was_not_streamed_has_no_first_token() -> None:
    body = {"choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 5}}
    answer = whole(200, "application/json", json.dumps(body))
    assert (answer.streamed, answer.first_token_ns, answer.text, answer.error) == (False, None, "ok", None)


def case_19(name: str) -> dict[str, Any]:
    routes = json.loads((CASES / "19-doctor-cannot-reach-or-read" / name).read_text("utf-8"))["routes"]
    route: dict[str, Any] = next(r for r in routes if r["method"] == "POST")
    return route


@pytest.mark.parametrize(
    ("status", "content_type", "body", "message"),
    [
        (200, "application/json", json.dumps(case_19("e-error-in-200.json")["json"]), "upstream quota used up"),
        (
            200,
            "application/json",
            json.dumps(case_19("f-choices-null.json")["json"]),
            "the answer is no completion: choices is null; its other keys are id, model, object",
        ),
        (200, "application/json", '{"choices": []}', "choices is []; its other keys are (none)"),
        (200, "application/json", '{"choices": {"id": 1}}', 'choices is {"id": 1}; its other keys'),
        (200, "application/json", '{"result": 1, "id": 2}', "the answer has no choices; it has the keys id, result"),
        (200, "text/html", "<html><body>Chat</body></html>", "HTTP 200 with a web page instead of JSON"),
        (404, "application/json", '{"error": {"message": "no model x"}}', "HTTP 404: no model x"),
        (422, "application/json", '{"detail": "messages missing"}', "HTTP 422: messages missing"),
        (502, "text/plain", "bad gateway", "HTTP 502 with something that is not JSON: bad gateway"),
        (500, "text/plain", "", "HTTP 500 with an empty body"),
        (200, "application/json", "[1]", "the answer is JSON but no object"),
    ],
)
def test_what_is_no_completion_says_why(status: int, content_type: str, body: str, message: str) -> None:
    answer = whole(status, content_type, body)
    assert message in (answer.error or "")


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (['{"choices": [{"delta": {"content": "a"}}]}'], "the stream ended early"),
        (['{"error": {"message": "out of memory"}}', "[DONE]"], "out of memory"),
        (["{not json", "[DONE]"], "an event of the stream is not JSON"),
        (["[1, 2]", "[DONE]"], "JSON but no object"),
        (['{"choices": ["?", {"delta": null}]}', "[DONE]"], None),
    ],
)
def test_errors_inside_a_stream(events: list[str], message: str | None) -> None:
    reader = AnswerReader()
    reader.begin(200, {"content-type": "text/event-stream"})
    reader.feed(1, "".join(f"data: {event}\n\n" for event in events).encode())
    error = reader.finish(complete=True).error
    assert error is None if message is None else message in (error or "")


def test_a_connection_cut_in_the_middle_is_no_success() -> None:
    reader = AnswerReader()
    reader.begin(200, {"content-type": "text/event-stream"})
    reader.feed(1, b'data: {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}\n\n')
    assert reader.finish(complete=False).error == "the connection was cut in the middle of the answer"


def test_long_words_of_a_server_are_cut() -> None:
    assert len(error_in({"error": "x" * 5000}) or "") == 200


def _stream(*chunks: dict[str, Any]) -> Answer:
    reader = AnswerReader()
    reader.begin(200, {"content-type": "text/event-stream"})
    for chunk in chunks:
        reader.feed(MS, f"data: {json.dumps(chunk)}\n\n".encode())
    reader.feed(MS, b"data: [DONE]\n\n")
    return reader.finish(complete=True)


@pytest.mark.parametrize("apart", [True, False], ids=["in another chunk", "in the same chunk"])
def test_what_a_server_writes_beside_usage_is_kept_with_it(apart: bool) -> None:
    timings = {"prompt_n": 4, "cache_n": 16, "predicted_n": 1, "prompt_ms": 3.5}
    token: dict[str, Any] = {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}
    usage: dict[str, Any] = {
        "choices": [],
        "usage": {"prompt_tokens": 20, "completion_tokens": 1, "prompt_tokens_details": None},
    }
    told = [{**token, "timings": timings}, usage] if apart else [token, {**usage, "timings": timings}]
    answer = _stream(*told)
    assert answer.usage == {**usage["usage"], "timings": timings}
    assert read_usage(answer.usage).num_cached_tokens == 16
    plain = whole(200, "application/json", json.dumps({**token, "metrics": {"queue_time_ms": 1.0}}))
    assert plain.usage == {"metrics": {"queue_time_ms": 1.0}}
    assert _stream(token).usage is None


@pytest.mark.parametrize(
    ("pieces", "text"),
    [(["a\ud83d", "\ude00b"], "a\U0001f600b"), (["a\ud83d", "b"], "a\ufffdb"), (["\ude00"], "\ufffd"), (["甲"], "甲")],
)
def test_halves_of_a_character_are_put_together_or_marked(pieces: list[str], text: str) -> None:
    """Gateways that count in UTF-16 may cut a pair in two; what stays of it could be written into no file."""
    reader = AnswerReader()
    reader.begin(200, {"content-type": "text/event-stream"})
    for piece in pieces:
        reader.feed(1, f"data: {json.dumps({'choices': [{'delta': {'content': piece}}]})}\n\n".encode())
    reader.feed(2, b"data: [DONE]\n\n")
    assert reader.finish(complete=True).text == text


CHUNK: dict[str, Any] = {
    "choices": [
        {
            "index": 0,
            "delta": {"role": "assistant", "content": "hi", "tool_calls": [{"id": "x"}]},
            "message": {"content": "hi"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 3}, "input_tokens": 4},
    "timings": {"prompt_n": 4, "cache_n": 3},
    "error": {"message": "no", "type": "x"},
}
ODD: tuple[Any, ...] = (None, True, 5, -1.5, "x", "", "\ud83d", [], [1], ["x"], {}, {"a": 1})


def mutated(value: Any, random: Random) -> Any:
    """The value with some of its parts of any other shape."""
    if random.random() < 0.12:
        return random.choice(ODD)
    if isinstance(value, dict):
        return {name: mutated(part, random) for name, part in value.items() if name != "error" or random.random() < 0.2}
    return [mutated(part, random) for part in value] if isinstance(value, list) else value


@pytest.mark.parametrize("streamed", [True, False])
def test_an_answer_of_any_shape_is_read_or_told_and_can_be_kept(streamed: bool, tmp_path: Path) -> None:
    kept = []
    for seed in range(600):
        data = json.dumps(mutated(CHUNK, Random(seed)))
        reader = AnswerReader()
        reader.begin(200, {"content-type": "text/event-stream" if streamed else "application/json"})
        reader.feed(1, (f"data: {data}\n\ndata: [DONE]\n\n" if streamed else data).encode())
        answer = reader.finish(complete=True)
        read_usage(answer.usage)
        kept.append(
            record(answer=answer.text, error=answer.error, usage=answer.usage, finish_reason=answer.finish_reason)
        )
    with RecordWriter(tmp_path / "records.jsonl") as writer:
        writer.begin(RunHeader(run_id="r", started_at="", num_planned_requests=1, **TABLES))
        for one in kept:
            writer.append(one)
    assert read_run(tmp_path).requests == tuple(kept)  # every field of its type, too
