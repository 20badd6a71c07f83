"""A server that takes connections and never answers: the doctor says what it waits for, and where."""

import asyncio
import io
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rich.console import Console

from anaphora.cli.main import run
from anaphora.lab.doctor import waiting
from anaphora.lab.doctor.check import Status
from anaphora.lab.doctor.visits import visit_server
from anaphora.lab.doctor.waiting import Waiting


class Heard(io.StringIO):
    """Text that tells when something of it was said."""

    def __init__(self, wanted: str) -> None:
        super().__init__()
        self._wanted = wanted
        self.said = asyncio.Event()

    def write(self, text: str) -> int:
        count = super().write(text)
        if self._wanted in self.getvalue():
            self.said.set()
        return count


async def examine_silent(heard: Heard, console: Console) -> tuple[str, int]:
    """A visit to a server that says nothing until the doctor has said what it waits for; then it hangs up."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await heard.said.wait()
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        checks = await visit_server(f"http://127.0.0.1:{port}", waits=console)
    assert (checks[0].name, checks[0].status) == ("reachable", Status.FAULT)
    return heard.getvalue(), port


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_is_waited_for_is_said_while_a_server_is_silent(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)

    async def go() -> tuple[str, int]:
        heard = Heard("waiting for")
        console = Console(file=heard, force_terminal=is_terminal, width=200)
        return await examine_silent(heard, console)

    said, port = asyncio.run(go())
    line = f"reachable: waiting for an answer of http://127.0.0.1:{port}"
    assert line in said
    if not is_terminal:
        assert said.splitlines() == [f"· {line}"]


def test_a_check_that_is_soon_made_is_not_told_of() -> None:
    async def go() -> str:
        console = Console(file=io.StringIO(), force_terminal=False)
        with Waiting(console, "an answer", patience_s=86_400.0).during("key"):
            await asyncio.sleep(0)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue()

    assert asyncio.run(go()) == ""


@contextmanager
def hanging_up() -> Iterator[int]:
    """The port of a server that takes connections and ends them without a word."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connection.recv(1)
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_what_is_waited_for_is_no_part_of_the_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    with hanging_up() as port:
        assert run(["doctor", f"127.0.0.1:{port}", "--json"]) == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["checks"][0]["name"] == "reachable"
    assert "reachable: waiting for an answer of http://127.0.0.1" in shown.err.replace("\n", "")
