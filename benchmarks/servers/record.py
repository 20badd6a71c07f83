"""Record what a server answers, byte for byte with the borders of its chunks, for tests that replay it.

python benchmarks/servers/record.py URL OUT.json --kind vllm|llama.cpp [--told "how it was started"]

The file holds one exchange a question: method, path and body as asked; status, headers and body as answered, one string
a chunk (latin-1, so that a chunk may end within a character). Of a metrics text the buckets of histograms are left out:
they are most of it, and nobody reads them here.
"""

import argparse
import json
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SYSTEM = "You are the help desk of a library. Answer in one short sentence, name the shelf, and do not guess. " * 12
CHAT = {
    "messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "Where is the atlas?"}],
    "max_tokens": 6,
    "temperature": 0,
}
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
TOOL = {"type": "function", "function": {"name": "noop", "parameters": {"type": "object", "properties": {}}}}
TEXT = "Where is the atlas?"
_FOLDER = re.compile(r'("(?:root|model_path)":\s*")[^"]*/')
_TOKENIZING: Mapping[str, list[tuple[str, str, Any]]] = {
    "vllm": [
        ("tokenize text", "/tokenize", {"prompt": TEXT, "add_special_tokens": False}),
        ("tokenize chat", "/tokenize", {"messages": CHAT["messages"], "add_generation_prompt": True}),
    ],
    "llama.cpp": [
        ("tokenize text", "/tokenize", {"content": TEXT, "add_special": False}),
        ("template", "/apply-template", {"messages": CHAT["messages"]}),
    ],
}


def questions(kind: str, model: str) -> Iterator[tuple[str, str, str, Any]]:
    """Name, method, path and body of each, in the order of asking."""
    yield "models", "GET", "/v1/models", None
    yield "version", "GET", "/version", None
    yield "props", "GET", "/props", None
    yield "metrics before", "GET", "/metrics", None
    for name in ("chat stream, new", "chat stream, again"):
        yield name, "POST", "/v1/chat/completions", {"model": model, **CHAT, **STREAM}
    yield "chat whole", "POST", "/v1/chat/completions", {"model": model, **CHAT}
    completion = {"model": model, "prompt": TEXT, "max_tokens": 6, "temperature": 0, **STREAM}
    yield "completion stream", "POST", "/v1/completions", completion
    yield "metrics after", "GET", "/metrics", None
    for name, path, body in _TOKENIZING[kind]:
        yield name, "POST", path, {"model": model, **body}
    yield "error: no list of messages", "POST", "/v1/chat/completions", {"model": model, "messages": "Hi"}
    yield "error: no such model", "POST", "/v1/chat/completions", {**CHAT, "model": "no-such-model"}
    yield "error: salt with a slash", "POST", "/v1/chat/completions", {"model": model, **CHAT, "cache_salt": "a/b"}
    yield "tools", "POST", "/v1/chat/completions", {"model": model, **CHAT, "tools": [TOOL]}
    yield "reset", "POST", "/reset_prefix_cache", None


def exchange(url: str, method: str, path: str, body: Any) -> dict[str, Any]:
    """Ask on a connection of its own, and keep the answer as it came."""
    place = urlsplit(url)
    data = b"" if body is None else json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/json\r\n"
    with socket.create_connection((place.hostname, place.port), timeout=300) as connection:
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        with connection.makefile("rb") as answer:
            status = int(answer.readline().split()[1])
            lines = list(iter(lambda: answer.readline().decode("latin-1").strip(), ""))
            headers = {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
            chunks = list(_chunks(answer, {name.lower(): value for name, value in headers.items()}))
    return {
        "asked": {"method": method, "path": path, "body": body},
        "answered": {"status": status, "headers": headers, "chunks": chunks},
    }


def _chunks(answer: Any, headers: Mapping[str, str]) -> Iterator[str]:
    if headers.get("transfer-encoding") != "chunked":
        yield answer.read(int(headers.get("content-length", 0))).decode("latin-1")
        return
    while size := int(answer.readline(), 16):
        yield answer.read(size).decode("latin-1")
        answer.readline()


def without_buckets(found: dict[str, Any]) -> dict[str, Any]:
    """A metrics text in one piece, without the buckets of its histograms."""
    lines = "".join(found["answered"]["chunks"]).splitlines(keepends=True)
    kept = "".join(line for line in lines if "_bucket{" not in line)
    return {**found, "answered": {**found["answered"], "chunks": [kept]}}


def without_folders(found: dict[str, Any]) -> dict[str, Any]:
    """Where the model lies on this machine is nobody's business."""
    chunks = [_FOLDER.sub(r"\1", chunk) for chunk in found["answered"]["chunks"]]
    return {**found, "answered": {**found["answered"], "chunks": chunks}}


def main() -> None:
    """Ask everything and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url")
    parser.add_argument("out", type=Path)
    parser.add_argument("--kind", choices=sorted(_TOKENIZING), required=True)
    parser.add_argument("--told", default="", help="how the server was started, and which version it is")
    asked = parser.parse_args()
    models = json.loads("".join(exchange(asked.url, "GET", "/v1/models", None)["answered"]["chunks"]))
    exchanges = {}
    for name, method, path, body in questions(asked.kind, models["data"][0]["id"]):
        found = exchange(asked.url, method, path, body)
        exchanges[name] = without_buckets(found) if path == "/metrics" else without_folders(found)
    recorded = {"kind": asked.kind, "server": asked.told, "exchanges": exchanges}
    asked.out.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    for name, found in exchanges.items():
        print(f"{name}: {found['answered']['status']}, {len(found['answered']['chunks'])} chunks")


if __name__ == "__main__":
    main()
