"""`anaphora bench`, `report` and `fit` as a person runs them, against a scripted server behind a real socket."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from anaphora.cli.main import run
from anaphora.traces.records import read_run
from tests.lab.fakes import FakeServing, completions_route, openai_routes, serving_at

FEW_QUESTIONS = ["--prefix-tokens", "100", "--questions", "3", "--output-tokens", "2"]
FEW = ["--lengths", "64,128", "--repeats", "2", *FEW_QUESTIONS]


@contextlib.contextmanager
def served(serving: FakeServing, *, completions: bool = False) -> Iterator[str]:
    """The fake's URL while its loop runs in another thread."""
    routes = openai_routes(serving)
    if completions:
        routes["POST /v1/completions"] = completions_route(serving)
    port: list[int] = []
    ready, loop = threading.Event(), asyncio.new_event_loop()
    stop = asyncio.Event()

    async def keep() -> None:
        async with serving_at(routes) as number:
            port.append(number)
            ready.set()
            await stop.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(keep(),))
    thread.start()
    ready.wait()
    try:
        yield f"http://127.0.0.1:{port[0]}"
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def test_bench_then_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "r"
    with served(FakeServing()) as url:
        assert run(["bench", "all", "--target", f"{url}/v1", "--out", str(out), *FEW]) == 0
        printed = capsys.readouterr()
        assert "Experiment 1: prefix caching on and off" in printed.out
        assert "Least squares" in printed.out
        assert "1/16  switch 100" in printed.err
        assert run(["bench", "all", "--target", url, "--out", str(out)]) == 2
        assert "holds a run already" in capsys.readouterr().err
    results = json.loads((out / "results.json").read_text("utf-8"))
    hit = results["experiments"]["switch"]["hit_rate_percent"]
    assert hit["usage"] == hit["metrics"] == hit["predicted"]
    assert results["experiments"]["gradient"]["hit_rate_percent"]["metrics"] is not None
    assert results["target"]["base_url"] == url
    before = (out / "results.json").read_bytes()
    (out / "report.html").unlink()
    assert run(["report", str(out)]) == 0
    assert (out / "results.json").read_bytes() == before
    assert (out / "report.html").exists()
    assert run(["fit", str(out / "table.csv"), "--json"]) == 0
    fitted = json.loads(capsys.readouterr().out.partition("report: ")[2].partition("\n")[2])
    gradient = results["experiments"]["gradient"]
    assert fitted == {**gradient["fit"], "slope_reduction_percent": gradient["slope_reduction_percent"]}


def test_keys_come_from_the_environment_and_go_nowhere(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["bench", "switch", "--api-key-env", "SOME_KEY", "--out", str(tmp_path / "r"), *FEW_QUESTIONS]
    with served(FakeServing()) as url:
        assert run([*command, "--target", url]) == 2
        assert "the environment variable SOME_KEY is not set" in capsys.readouterr().err
        monkeypatch.setenv("SOME_KEY", "sk-very-secret")
        assert run([*command, "--target", url]) == 0
    printed = capsys.readouterr()
    assert "sk-very-secret" not in printed.out + printed.err
    for path in (tmp_path / "r").iterdir():
        assert b"sk-very-secret" not in path.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "http://127.0.0.1:9"], "nothing answers at http://127.0.0.1:9 (Connection refused): start the"),
        (["--target", "ftp://x"], "no base URL"),
        (["--arms", "flag", "--target", "http://127.0.0.1:9"], "--arms flag needs a server that is started"),
        (["--lengths", "a,b"], "is no list of numbers"),
        (["--lengths", "64,64"], "--lengths takes different numbers"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--questions", "1"], "--questions must be at least 2"),
        (["--lang", "xx", "--target", "URL"], "no texts in 'xx': --lang takes en or zh"),
        (["--server-option", "--seed=1", "--target", "http://127.0.0.1:9"], "--server-option goes to a server that"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    out = tmp_path / "r"
    with served(FakeServing()) if "URL" in arguments else contextlib.nullcontext("") as url:
        assert run(["bench", "all", "--out", str(out), *(url if a == "URL" else a for a in arguments)]) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("anaphora: error: ")
    assert message in last
    assert not out.exists() or not list(out.iterdir())


def test_report_refuses_what_is_no_report_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["report", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
    assert run(["report", str(tmp_path)]) == 2
    assert "give a report folder of `anaphora bench`" in capsys.readouterr().err


@pytest.fixture
def heeds_sigint() -> Iterator[None]:
    """A shell lets what it starts in the background ignore SIGINT, and children inherit that: not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_sigint")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_measured(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "r"
    with served(FakeServing(pause_s=0.05)) as url:
        command = [sys.executable, "-m", "anaphora", "bench", "gradient", "--target", url, "--out", str(out)]
        with subprocess.Popen(
            [*command, "--lengths", "64", "--repeats", "300"], stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            next(line for line in lines if " 5/" in line)
            process.send_signal(number)
            rest = "".join(lines)
            process.wait()
    assert process.returncode == 130, rest
    assert "Traceback" not in rest
    assert f"`anaphora report {out}` makes a report of them" in rest
    assert len(read_run(out).requests) >= 5


SERVER = """
import http.server, json, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"data": [{"id": "m"}]}).encode()
        self.send_response(200); self.send_header("Content-Length", str(len(body))); self.end_headers()
        self.wfile.write(body)
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def test_a_managed_server_is_started_waited_for_and_stopped(tmp_path: Path) -> None:
    from anaphora.lab.address import BaseUrl
    from anaphora.lab.targets.managed import ManagedServer, free_port
    from anaphora.lab.targets.openai import OpenAITarget

    async def go() -> int:
        port = free_port()
        target = OpenAITarget(BaseUrl.parse(f"127.0.0.1:{port}"), clock=time.monotonic_ns)
        async with ManagedServer([sys.executable, "-c", SERVER, str(port)], tmp_path / "log") as server:
            await server.wait_until_ready(target, limit_s=60)
            await target.choose_model(None)
            assert target.model == "m"
            assert server.process_id is not None
            process_id = server.process_id
            await target.close()
        return process_id

    process_id = asyncio.run(go())
    with pytest.raises(ProcessLookupError):
        os.kill(process_id, 0)


def test_a_managed_server_that_dies_is_quoted(tmp_path: Path) -> None:
    from anaphora.errors import TargetError
    from anaphora.lab.address import BaseUrl
    from anaphora.lab.targets.managed import ManagedServer, free_port
    from anaphora.lab.targets.openai import OpenAITarget

    async def go(code: str, limit_s: float = 60) -> None:
        target = OpenAITarget(BaseUrl.parse(f"127.0.0.1:{free_port()}"), clock=time.monotonic_ns)
        async with ManagedServer([sys.executable, "-c", code], tmp_path / "log") as server:
            await server.wait_until_ready(target, limit_s=limit_s)

    with pytest.raises(TargetError, match="the server did not start: no such model"):
        asyncio.run(go("import sys; sys.exit('anaphora: error: no such model')"))
    with pytest.raises(TargetError, match=r"not ready after 0\.1 s: give it more with --wait .it said last: nothing."):
        asyncio.run(go("import time; time.sleep(60)", limit_s=0.1))
    with pytest.raises(TargetError, match="the server did not start: it ended without a word"):
        asyncio.run(go(""))
