"""The client's side of one HTTP request: its body, read within limits, and its going away, noticed at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from anaphora.errors import RequestError
from anaphora.server.errors import BodyTooLargeError, ClientGoneError, SlowBodyError

DISCARD_FACTOR = 4
"""So many times the limit is still read, and thrown away, of a body that is too long: a client that sends all before it
reads would otherwise see a broken connection in place of the answer."""
DISCARD_S = 5.0
BODY_S = 60.0
"""How long a body may take: a client that never ends it would hold its connection and its part of the memory."""

T = TypeVar("T")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """The whole body, with a length given or chunked.

    Raises:
        RequestError: it is compressed.
        BodyTooLargeError: it has more than ``max_bytes``.
        SlowBodyError: it was not whole within ``BODY_S``.
        ClientDisconnect: the client went away while sending it.
    """
    encoding = request.headers.get("content-encoding", "identity")
    if encoding != "identity":
        raise RequestError(f"bodies with Content-Encoding {encoding} are not read: send it as it is")
    transfer = request.headers.get("transfer-encoding", "chunked")
    if transfer.lower() != "chunked":
        raise RequestError(f"bodies with Transfer-Encoding {transfer} are not read: send it as it is")
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > max_bytes:
        if "expect" not in request.headers:  # a client that asks first has sent nothing yet
            await _discard(request, max_bytes * DISCARD_FACTOR)
        raise _too_large(max_bytes)
    try:
        async with asyncio.timeout(BODY_S):
            chunks = await _read_chunks(request, max_bytes)
    except TimeoutError:
        raise SlowBodyError(f"the body did not come within {BODY_S:g} s: send it faster") from None
    if chunks is None:
        await _discard(request, max_bytes * DISCARD_FACTOR)
        raise _too_large(max_bytes)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _read_chunks(request: Request, max_bytes: int) -> list[bytes] | None:
    """The body's parts; ``None`` as soon as they are more than ``max_bytes``."""
    chunks: list[bytes] = []
    room = max_bytes
    async for chunk in request.stream():
        room -= len(chunk)
        if room < 0:
            return None
        chunks.append(chunk)
    return chunks


async def _discard(request: Request, max_bytes: int) -> None:
    async def read() -> None:
        room = max_bytes
        while room > 0:
            message = await request.receive()
            room -= len(message.get("body", b""))
            if not message.get("more_body", False):
                return

    try:
        await asyncio.wait_for(read(), DISCARD_S)
    except TimeoutError:
        return


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body may have at most {max_bytes} bytes: send less, or raise --max-body-bytes")


def client_gone() -> ClientGoneError:
    """What is said to a client that closed its side early. If it still reads, only its sending side was closed."""
    return ClientGoneError(
        "the client closed its side of the connection before the answer was complete, so the request was ended: "
        "keep it open for sending until all is read"
    )


async def until_disconnect(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, which is cancelled if the client goes away first.

    Raises:
        ClientDisconnect: it went away. The body must have been read before.
    """
    task = asyncio.ensure_future(work)
    watcher = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait((task, watcher), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise ClientDisconnect
    finally:
        task.cancel()
        watcher.cancel()
        await asyncio.gather(task, watcher, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
