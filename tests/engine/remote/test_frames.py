"""Frames arrive whole and in order, however the stream is cut."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from anaphora.engine.remote.frames import FrameChannel


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.data = b""
        self.was_closed = False

    def write(self, data: bytes) -> None:
        self.data += data

    def is_closing(self) -> bool:
        return self.was_closed

    def close(self) -> None:
        self.was_closed = True


def channel() -> tuple[FrameChannel, list[bytes], list[str], Wire]:
    frames: list[bytes] = []
    losses: list[str] = []
    wire = Wire()
    end = FrameChannel(lambda view: frames.append(bytes(view)), lambda: losses.append("lost"))
    end.connection_made(wire)  # type: ignore[arg-type]
    return end, frames, losses, wire


@given(payloads=st.lists(st.binary(max_size=40), max_size=8), cuts=st.lists(st.integers(0, 400)))
def test_any_cut_gives_the_same_frames(payloads: list[bytes], cuts: list[int]) -> None:
    sender, _, _, wire = channel()
    for payload in payloads:
        sender.send(payload)
    receiver, frames, _, _ = channel()
    borders = sorted({min(cut, len(wire.data)) for cut in cuts} | {0, len(wire.data)})
    for begin, end in itertools.pairwise(borders):
        receiver.data_received(wire.data[begin:end])
    assert frames == payloads


def test_nothing_is_sent_once_it_is_closed_or_lost() -> None:
    end, _, losses, wire = channel()
    end.close()
    end.send(b"late")
    end.connection_lost(None)
    end.send(b"later")
    end.close()
    assert (wire.data, losses) == (b"", ["lost"])
