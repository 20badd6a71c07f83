"""What the engine's process and its front ends tell each other beside requests: setting up, stopping, asking around."""

import msgspec

from anaphora.server.peers import Topic
from anaphora.server.settings import ServerSettings
from anaphora.server.traffic_rows import RowMaker


class RequestLogSetup(msgspec.Struct, frozen=True):
    """The request log that all front ends append to. Its start is in it already."""

    path: str
    rows: RowMaker


class Setup(msgspec.Struct, frozen=True, tag=True):
    """To a front end, first of all, while the model is still being loaded: all that it needs but the engine."""

    settings: ServerSettings
    model_folder: str
    drain_s: float
    access_log: bool
    request_log: RequestLogSetup | None


class Stop(msgspec.Struct, frozen=True, tag=True):
    """To a front end: take no new requests, let the running ones end, exit. ``is_urgent``: end them now."""

    is_urgent: bool


class Listening(msgspec.Struct, frozen=True, tag=True):
    """From a front end: it serves."""


class Gather(msgspec.Struct, frozen=True, tag=True):
    """From a front end: ask all front ends. ``number`` comes back with what they said."""

    number: int
    topic: Topic
    argument: str


class Query(msgspec.Struct, frozen=True, tag=True):
    """To a front end: a question that one of them asked."""

    number: int
    topic: Topic
    argument: str


class Part(msgspec.Struct, frozen=True, tag=True):
    """From a front end: its answer to a query."""

    number: int
    content: bytes


class Gathered(msgspec.Struct, frozen=True, tag=True):
    """To a front end: what all front ends said to its question."""

    number: int
    parts: list[bytes]


FromFrontEnd = Listening | Gather | Part
ToFrontEnd = Setup | Stop | Query | Gathered

encode_aside = msgspec.msgpack.Encoder().encode
_from_front_end: msgspec.msgpack.Decoder[FromFrontEnd] = msgspec.msgpack.Decoder(FromFrontEnd)
_to_front_end: msgspec.msgpack.Decoder[ToFrontEnd] = msgspec.msgpack.Decoder(ToFrontEnd)


def decode_from_front_end(payload: bytes) -> FromFrontEnd:
    """What a front end says.

    Raises:
        msgspec.DecodeError: it is none of these.
    """
    return _from_front_end.decode(payload)


def decode_to_front_end(payload: bytes) -> ToFrontEnd:
    """What the engine's process says.

    Raises:
        msgspec.DecodeError: it is none of these.
    """
    return _to_front_end.decode(payload)
