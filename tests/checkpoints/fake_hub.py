"""A hub on 127.0.0.1 that serves one model: what the hub's client asks for, and no more."""

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """``requests``: the paths asked for so far. ``withheld``: a file whose content is announced and never sent."""

    def __init__(self, name: str, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model_name = name
        self.folder = folder
        self.requests: list[str] = []
        self.withheld = ""
        self.is_withholding = threading.Event()
        self.is_gated = False

    @property
    def url(self) -> str:
        """Its address, as ``HF_ENDPOINT`` wants it."""
        return f"http://127.0.0.1:{self.server_port}"

    def names(self) -> list[str]:
        """The model's files."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


@contextmanager
def serving(name: str, folder: Path) -> Iterator[FakeHub]:
    """A hub that runs inside the block."""
    with FakeHub(name, folder) as hub:
        thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        thread.start()
        yield hub
        hub.shutdown()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def _answer(self, *, with_body: bool) -> None:
        hub, path = self.server, self.path.split("?")[0]
        hub.requests.append(path)
        name = hub.model_name
        if hub.is_gated:
            self._json({"error": "Access is restricted"}, 403, {"X-Error-Code": "GatedRepo"})
        elif path.startswith(f"/api/models/{name}/tree/"):
            self._json([{"type": "file", "path": file, **self._blob(file)} for file in hub.names()])
        elif path in (f"/api/models/{name}", f"/api/models/{name}/revision/main"):
            siblings = [{"rfilename": file} for file in hub.names()]
            self._json({"id": name, "modelId": name, "sha": COMMIT, "siblings": siblings, "tags": []})
        elif path.startswith(f"/{name}/resolve/") and path.split("/", 5)[5] in hub.names():
            self._file(path.split("/", 5)[5], with_body)
        else:
            self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})

    def _blob(self, file: str) -> dict[str, Any]:
        data = (self.server.folder / file).read_bytes()
        return {"size": len(data), "oid": hashlib.sha1(data, usedforsecurity=False).hexdigest()}

    def _json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._send(json.dumps(value).encode(), status, {"Content-Type": "application/json"} | (headers or {}))

    def _file(self, file: str, with_body: bool) -> None:
        data = (self.server.folder / file).read_bytes()
        headers = {"ETag": f'"{self._blob(file)["oid"]}"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if file == self.server.withheld and with_body:
            self._send(data, 200, headers, data[: len(data) // 2])
            self.server.is_withholding.set()
            self.rfile.read(1)  # until the client is gone
        else:
            self._send(data, 200, headers, data if with_body else b"")

    def _send(self, data: bytes, status: int, headers: dict[str, str], body: bytes | None = None) -> None:
        self.send_response(status)
        for key, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data if body is None else body)
