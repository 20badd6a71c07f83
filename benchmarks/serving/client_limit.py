"""How many events a second the load client takes when the server does nothing but send.

python -m benchmarks.serving.client_limit
"""

import json
import socket
import subprocess
import sys
import threading
import time

from benchmarks.gpu.serving.client import Answer, Client

EVENTS = 400
"""Of one answer."""


def answer() -> bytes:
    """A streamed chat as our server writes one, whole."""
    parts = []
    for number in range(EVENTS + 1):
        is_last = number == EVENTS
        choice = {"index": 0, "delta": {} if is_last else {"content": " word"}, "finish_reason": None}
        message: dict[str, object] = {"id": "chatcmpl-0", "object": "chat.completion.chunk", "choices": [choice]}
        if is_last:
            message["usage"] = {"prompt_tokens": 1, "completion_tokens": EVENTS, "prompt_tokens_details": None}
        parts.append(b"data: " + json.dumps(message).encode() + b"\n\n")
    parts.append(b"data: [DONE]\n\n")
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def serve(num_clients: int) -> None:
    """Answer one request of each of ``num_clients`` connections, event by event, in one process; print the port."""
    whole = answer()
    head, *events = whole.split(b"data: ")
    pieces = [head, *(b"data: " + event for event in events)]
    with socket.create_server(("127.0.0.1", 0), backlog=256) as listener:
        print(listener.getsockname()[1], flush=True)
        connections = [listener.accept()[0] for _ in range(num_clients)]
        for connection in connections:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.recv(1 << 16)
        for piece in pieces:
            for connection in connections:
                connection.sendall(piece)


def measure_client(num_clients: int) -> float:
    """Events a second that ``num_clients`` clients take in together."""
    command = [sys.executable, "-m", "benchmarks.serving.client_limit", str(num_clients)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        answers: list[Answer] = []

        def ask() -> None:
            client = Client(port, "none")
            answers.append(client.send(client.request("hello", "hello", EVENTS)))
            client.close()

        threads = [threading.Thread(target=ask) for _ in range(num_clients)]
        started_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        process.wait()
    return round(EVENTS * num_clients / (max(answer.read().done_s for answer in answers) - started_s))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(int(sys.argv[1]))
    else:
        print(measure_client(64))
