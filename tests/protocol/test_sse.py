"""The event-stream codec: recorded streams of other servers, whole and byte by byte, and any chunk borders."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.protocol.sse import DONE, ENCODED_DONE, EventStreamDecoder, ServerSentEvent, encode_event

CASES = Path(__file__).parents[1] / "data" / "cases"
SCRIPTS = sorted(p for c in CASES.glob("0[1-4]-sse-*") for p in c.glob("*.jsonl"))


def stream_of(script: Path) -> bytes:
    """The bytes that a write script plays."""
    writes = [json.loads(line) for line in script.read_text("utf-8").splitlines()]
    return b"".join(bytes.fromhex(w["hex"]) if "hex" in w else w.get("text", "").encode() for w in writes)


def decode(chunks: list[bytes]) -> list[ServerSentEvent]:
    decoder = EventStreamDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: f"{p.parent.name[:2]}{p.stem[0]}")
def test_a_stream_decodes_the_same_whole_and_byte_by_byte(script: Path) -> None:
    stream = stream_of(script)
    events = decode([stream])
    assert decode([stream[i : i + 1] for i in range(len(stream))]) == events
    assert events[-1].data == DONE
    for event in events[:-1]:
        assert event.data == "" or json.loads(event.data)["object"] == "chat.completion.chunk"


@pytest.mark.parametrize("script", [p for p in SCRIPTS if p.parent.name.startswith("03")], ids=lambda p: p.stem)
def test_events_are_handed_on_as_soon_as_they_are_complete(script: Path) -> None:
    stream = stream_of(script)
    decoder = EventStreamDecoder()
    done_at = next(i for i in range(len(stream)) if any(e.data == DONE for e in decoder.feed(stream[i : i + 1])))
    first = EventStreamDecoder()
    first_at = next(i for i in range(len(stream)) if any(e.data for e in first.feed(stream[i : i + 1])))
    assert first_at < len(stream) / 2
    assert done_at >= len(stream) - 2  # the last blank line's CR, or its LF


def test_fields_are_read_as_the_standard_says() -> None:
    stream = (
        b"\xef\xbb\xbf: a ping\n\ndata:no space\ndata:  two spaces\nnonsense: 1\nid: 7\n\n"
        b"event: error\ndata\n\nid: a\0b\ndata: \xe2\x80\xa8 is text\n\nevent: dropped with its empty event\n\n"
        b"data: lacks its blank line"
    )
    assert decode([stream]) == [
        ServerSentEvent("no space\n two spaces", "message", "7"),
        ServerSentEvent("", "error", "7"),
        ServerSentEvent("\u2028 is text", "message", "7"),
        ServerSentEvent("lacks its blank line", "message", "7"),
    ]


def test_encoding() -> None:
    assert encode_event("a") == encode_event(b"a") == b"data: a\n\n"
    assert encode_event("a\r\nb\rc", event="error") == b"event: error\ndata: a\ndata: b\ndata: c\n\n"
    assert encode_event("") == b"data: \n\n"
    assert ENCODED_DONE == b"data: [DONE]\n\n"


@given(texts=st.lists(st.text(), max_size=5), line_end=st.sampled_from(["\n", "\r\n", "\r"]), data=st.data())
def test_what_is_encoded_decodes_whatever_the_chunk_borders(
    texts: list[str], line_end: str, data: st.DataObject
) -> None:
    texts = [text.replace("\r\n", "\n").replace("\r", "\n") for text in texts]
    stream = b"".join(encode_event(text) for text in texts).replace(b"\n", line_end.encode())
    borders = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    chunks = [stream[a:b] for a, b in zip([0, *borders], [*borders, len(stream)], strict=True)]
    assert [event.data for event in decode(chunks)] == texts
