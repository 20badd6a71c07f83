"""Whether a server has got over what was done to it: nothing runs, no block is held, the counts agree, it answers."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.gpu.overload.client import Ask, Ending, Kind, ask_in_turn

IDLE_LIMIT_S = 30.0
ANSWER_LIMIT_S = 60.0
NODES = 2000

Metrics = Mapping[str, float]
"""Values by name, with the reason behind the names of requests that have finished."""


class Auditor:
    """Looks at one server from outside. Questions are answered alone, from an empty cache, when it is made."""

    def __init__(self, port: int, model: str, questions: Sequence[Ask]) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self._port = port
        self._model = model
        self._questions = questions
        self.answers = self._ask()
        """The texts, which stay the same whatever happens in between."""
        self.last = self.metrics()
        """As they were when the server was last seen idle."""

    def metrics(self) -> Metrics:
        """As they are now."""
        return read_metrics(self._get("/metrics").decode())

    def audit(self, before: Metrics, endings: Sequence[Ending]) -> list[str]:
        """What is not as it should be after a load whose requests had these ``endings``."""
        try:
            after = self.last = self._when_idle()
        except TimeoutError as error:
            return [str(error)]
        problems = count_problems(before, after, endings)
        if (
            after["anaphora:kv_cache_free_blocks"] != after["anaphora:kv_cache_blocks"]
            or after["vllm:kv_cache_usage_perc"]
        ):
            problems.append(
                f"blocks are held: {after['anaphora:kv_cache_free_blocks']:.0f} of "
                f"{after['anaphora:kv_cache_blocks']:.0f} are free"
            )
        tree = json.loads(self._get(f"/cache/tree?limit={NODES}"))
        held = sum(node["num_holders"] > 0 for node in tree["nodes"])
        if held:
            problems.append(f"{held} nodes of the cache's tree have holders")
        try:
            answers = self._ask()
        except (RuntimeError, OSError) as error:
            return [*problems, f"fresh requests: {error}"]
        differing = sum(now != then for now, then in zip(answers, self.answers, strict=True))
        if differing:
            problems.append(f"{differing} of {len(answers)} fresh requests are not answered as before")
        return problems

    def _ask(self) -> list[str]:
        """Texts of all questions, in order, each asked when the one before is over."""
        self._empty_the_cache()
        endings = ask_in_turn(self._port, self._model, self._questions, ANSWER_LIMIT_S)
        unanswered = [ending for ending in endings if ending.kind is not Kind.ANSWERED]
        if unanswered:
            raise RuntimeError(f"{len(unanswered)} of {len(endings)} ended otherwise, as {unanswered[0].label!r}")
        return [ending.text for ending in endings]

    def _empty_the_cache(self) -> None:
        try:
            self._get("/reset_prefix_cache", method="POST")
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"the cache cannot be reset: {error.read().decode(errors='replace')}") from None
        left = json.loads(self._get(f"/cache/tree?limit={NODES}"))["nodes"]
        if left:
            raise RuntimeError(f"{len(left)} nodes are in the cache's tree after a reset")

    def _when_idle(self) -> Metrics:
        deadline = time.monotonic() + IDLE_LIMIT_S
        while True:
            metrics = self.metrics()
            busy = {state: metrics[f"vllm:num_requests_{state}"] for state in ("running", "waiting")}
            if not any(busy.values()):
                return metrics
            if time.monotonic() > deadline:
                raise TimeoutError(f"after {IDLE_LIMIT_S:.0f} s without clients there still are requests: {busy}")
            time.sleep(0.05)

    def _get(self, path: str, method: str = "GET") -> bytes:
        request = urllib.request.Request(self._url + path, method=method)
        with urllib.request.urlopen(request, timeout=IDLE_LIMIT_S) as response:
            body: bytes = response.read()
            return body


def read_metrics(text: str) -> Metrics:
    """Of an exposition in Prometheus' format."""
    metrics: dict[str, float] = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            series, _, value = line.rpartition(" ")
            name, _, labels = series.partition("{")
            reason = labels.partition('finished_reason="')[2].partition('"')[0]
            metrics[f"{name}:{reason}" if reason else name] = float(value)
    return metrics


def growth(before: Metrics, after: Metrics) -> dict[str, int]:
    """Of what only grows, by short names."""
    names = {
        "preemptions": "vllm:num_preemptions_total",
        "evicted_blocks": "anaphora:evicted_blocks_total",
        "steps": "anaphora:steps_total",
        "failed_steps": "anaphora:failed_steps_total",
        "finished": "vllm:request_success_total:length",
        "stopped": "vllm:request_success_total:stop",
        "aborted": "vllm:request_success_total:abort",
    }
    return {short: int(after[name] - before[name]) for short, name in names.items()}


def count_problems(before: Metrics, after: Metrics, endings: Sequence[Ending]) -> list[str]:
    """Where the server's counts cannot be those of requests with these ``endings``.

    Who leaves may have been served to the end by then, and may never have got as far as the engine if no token had
    come: between these bounds nobody knows. Without such clients the counts have to agree to one.
    """
    grown = growth(before, after)
    num = {kind: sum(ending.kind is kind for ending in endings) for kind in Kind}
    num_failed = sum(ending.is_step_error for ending in endings)
    num_left, num_left_midway = num[Kind.LEFT], sum(e.kind is Kind.LEFT and e.num_events > 0 for e in endings)
    bounds = {
        "finished": (num[Kind.ANSWERED], num[Kind.ANSWERED] + num_left),
        "aborted": (num_failed, num_failed + num_left),
        "stopped": (0, 0),
    }
    counted: dict[str, Any] = {name: grown[name] for name in bounds}
    bounds["all"] = (
        num[Kind.ANSWERED] + num_failed + num_left_midway,
        num[Kind.ANSWERED] + num_failed + num_left,
    )
    counted["all"] = sum(counted.values())
    return [
        f"requests {name}: the server counts {counted[name]}, the clients saw {low} to {high}"
        for name, (low, high) in bounds.items()
        if not low <= counted[name] <= high
    ]
