"""Many clients at once, on connections that are warm when the clock starts.

One Python process takes some twelve thousand events a second from 64 streams, which a fast server surpasses: so clients
may be shared out to several processes, that begin together. Stamps of all of them are of the machine's one monotonic
clock.
"""

import multiprocessing
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from benchmarks.gpu.serving.client import Answer, Client, Reply

_start: Any = None


def burst(
    port: int, model: str, system: str, questions: Sequence[str], *, max_tokens: int, num_processes: int = 1
) -> list[Reply]:
    """Ask every question behind the same ``system`` prompt, all at once.

    Raises:
        RequestFailedError: an answer carries no generation.
        RuntimeError: a request was not answered.
    """
    if num_processes == 1:
        replies = _ask_all(port, model, system, questions, max_tokens, lambda: None)
    else:
        context = multiprocessing.get_context("spawn")
        barrier = context.Barrier(num_processes)
        shares = [questions[first::num_processes] for first in range(num_processes)]
        with ProcessPoolExecutor(num_processes, context, _keep, (barrier,)) as pool:
            futures = [pool.submit(_share, port, model, system, share, max_tokens) for share in shares]
            replies = [reply for future in futures for reply in future.result()]
    if len(replies) < len(questions):
        raise RuntimeError(f"{len(questions) - len(replies)} of {len(questions)} requests at once failed")
    return replies


def _keep(barrier: Any) -> None:
    """In a client process: what it will wait for."""
    global _start
    _start = barrier


def _share(port: int, model: str, system: str, questions: Sequence[str], max_tokens: int) -> list[Reply]:
    def wait() -> None:
        _start.wait()

    return _ask_all(port, model, system, questions, max_tokens, wait)


def _ask_all(
    port: int, model: str, system: str, questions: Sequence[str], max_tokens: int, wait: Callable[[], None]
) -> list[Reply]:
    """A thread for each question; ``wait`` is called once all are ready. Answers are read when all have ended."""
    answers: list[Answer] = []
    start = threading.Barrier(len(questions), action=wait)

    def ask(question: str) -> None:
        client = Client(port, model)
        client.ask("hello", "hello", max_tokens=1)
        request = client.request(system, question, max_tokens)
        start.wait()
        answers.append(client.send(request))
        client.close()

    threads = [threading.Thread(target=ask, args=(question,)) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [answer.read() for answer in answers]
