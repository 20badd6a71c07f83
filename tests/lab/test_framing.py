"""HTTP answers as bytes, cut anywhere."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaphora.errors import TargetError
from anaphora.lab.framing import ResponseFraming

BODY = 'data: {"text": "Grüße"}\r\n\r\n'.encode()
BY_LENGTH = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nX-A:  b \r\n\r\n%s" % (len(BODY), BODY)
BY_CHUNKS = (
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;name=value\r\n%s\r\n%x\r\n%s\r\n0\r\nTrailer: 1\r\n\r\n"
    % (BODY[:5], len(BODY) - 5, BODY[5:])
)
UNTIL_CLOSE = b"HTTP/1.0 200 OK\r\n\r\n" + BODY
AFTER_INTERIM = b"HTTP/1.1 100 Continue\r\n\r\n" + BY_LENGTH
_PACKED = gzip.compress(BODY)
COMPRESSED = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s" % (len(_PACKED), _PACKED)


def read(chunks: list[bytes]) -> tuple[ResponseFraming, bytes]:
    framing = ResponseFraming()
    body = b"".join(framing.feed(chunk) for chunk in chunks)
    framing.end_of_connection()
    return framing, body


@given(st.sampled_from([BY_LENGTH, BY_CHUNKS, UNTIL_CLOSE, AFTER_INTERIM, COMPRESSED]), st.data())
def test_the_body_is_the_same_wherever_the_bytes_are_cut(answer: bytes, data: st.DataObject) -> None:
    borders = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=12)))
    framing, body = read([answer[a:b] for a, b in zip([0, *borders], [*borders, len(answer)], strict=True)])
    assert body == BODY
    assert framing.complete
    assert framing.status == 200


def test_body_bytes_are_handed_on_at_once() -> None:
    framing = ResponseFraming()
    assert framing.feed(BY_CHUNKS[: BY_CHUNKS.index(BODY[:3]) + 3]) == BODY[:3]
    assert not framing.complete


@pytest.mark.parametrize(
    ("head", "keeps"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: Keep-Alive\r\n\r\n", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
    ],
)
def test_whether_the_connection_can_be_used_again(head: bytes, keeps: bool) -> None:
    assert read([head])[0].keeps_connection is keeps


def test_an_answer_that_was_cut_is_not_complete() -> None:
    for answer in (BY_LENGTH, BY_CHUNKS):
        assert not read([answer[:-3]])[0].complete


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnot a size\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nplain",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nplain",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 5\r\n\r\nplain",
    ],
)
def test_what_is_no_http_is_told(answer: bytes) -> None:
    with pytest.raises(TargetError):
        read([answer])


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate", "GZIP"])
def test_a_compressed_stream_is_handed_on_as_it_comes(encoding: str) -> None:
    wbits = 15 if encoding == "deflate" else 31
    packer = zlib.compressobj(wbits=wbits)
    events = [b"data: one\n\n", b"data: two\n\n"]
    pieces = [packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH) for event in events]
    framing = ResponseFraming()
    framing.feed(f"HTTP/1.1 200 OK\r\nContent-Encoding: {encoding}\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
    assert [framing.feed(b"%x\r\n%s\r\n" % (len(piece), piece)) for piece in pieces] == events


def test_members_of_a_compressed_answer_may_follow_one_another() -> None:
    body = gzip.compress(b"first ") + gzip.compress(b"second")
    framing = ResponseFraming()
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    assert framing.feed(head + body) == b"first second"
    assert framing.complete
