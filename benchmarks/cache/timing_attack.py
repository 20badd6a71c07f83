"""Does a server tell one tenant what another has sent? The known attack, played over HTTP on our own server.

    python -m benchmarks.cache.timing_attack --model MODEL --out benchmarks/results/cache/timing_attack.json

In each trial a victim sends one of two prompts of equal length, by the toss of a coin; then an attacker with another
API key sends the first of them and looks at what comes back: cached tokens, every class of the ledger, every counter
and gauge of ``/metrics`` (open to everybody here), and the time to first token. Then the victim's own key sends it too:
that is the control, without which a blind measurement would pass for a safe server.

For each thing observed, the area under the curve (AUC): how likely it ranks a right guess above a wrong one, 0.5 for a
coin. Intervals: 95 %, bootstrap over the trials. Prompts, coins and resampling are seeded; times are what they are.
"""

import argparse
import contextlib
import http.client
import json
import os
import platform
import random
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.cpu.procfs import describe_hardware
from benchmarks.cpu.servers import Server
from prometheus_client.parser import text_string_to_metric_families

VICTIM, ATTACKER = "key-of-the-victim", "key-of-the-attacker"
BLOCK_SIZE = 16
NUM_SUFFIX_TOKENS = 4
TOKEN_IDS = range(1000, 20000)
NUM_RESAMPLES = 2000
LIMIT_S = 60
TTFT = "ttft_ms"
Observation = dict[str, float]


@dataclass(frozen=True, slots=True)
class Trial:
    """What the attacker and the control saw. ``is_right``: the victim had sent what both guessed."""

    is_right: bool
    attacker: Observation
    control: Observation


class Client:
    """One tenant on one connection."""

    def __init__(self, port: int, key: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=LIMIT_S)
        self._headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def ask(self, tokens: Sequence[int], model: str) -> Observation:
        """Send a prompt for one token: what the answer tells."""
        body = {"model": model, "prompt": list(tokens), "max_tokens": 1, "temperature": 0, "stream": True}
        body |= {"include_ledger": True, "stream_options": {"include_usage": True}}
        data = json.dumps(body).encode()
        sent_s = time.perf_counter()
        self._connection.request("POST", "/v1/completions", data, self._headers)
        response = self._connection.getresponse()
        assert response.status == 200, response.read()
        first_s = 0.0
        usage: dict[str, Any] = {}
        while line := response.readline():
            if not line.startswith(b"data: {"):
                continue
            message = json.loads(line[len("data: ") :])
            first_s = first_s or (time.perf_counter() if message.get("choices") else 0.0)
            usage = message.get("usage") or usage
        details = usage["prompt_tokens_details"]
        ledger = {f"ledger {reason}": float(count) for reason, count in details["ledger"]["reasons"].items()}
        return {TTFT: 1000 * (first_s - sent_s), "cached_tokens": float(details["cached_tokens"]), **ledger}

    def metrics(self) -> Observation:
        """Every series but the times, which :data:`TTFT` stands for."""
        self._connection.request("GET", "/metrics")
        text = self._connection.getresponse().read().decode()
        return {
            " ".join((sample.name, *sorted(sample.labels.values()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if "_seconds" not in sample.name
        }


def observe(client: Client, tokens: Sequence[int], model: str) -> Observation:
    """All that one request tells whoever sends it, the moves of the public metrics included."""
    before = client.metrics()
    seen = client.ask(tokens, model)
    after = client.metrics()
    return seen | {f"metric {name}": value - before.get(name, 0.0) for name, value in after.items()}


def play(port: int, model: str, num_trials: int, num_blocks: int) -> Iterator[Trial]:
    """The trials, one after the other; none shares a token block with another."""
    rng = random.Random(0)
    victim, attacker = Client(port, VICTIM), Client(port, ATTACKER)
    for _ in range(num_trials):
        guess, decoy, *suffixes = (rng.sample(TOKEN_IDS, num_blocks * BLOCK_SIZE) for _ in range(5))
        is_right = rng.random() < 0.5
        sent = guess if is_right else decoy
        victim.ask([*sent, *suffixes[0][:NUM_SUFFIX_TOKENS]], model)
        seen = observe(attacker, [*guess, *suffixes[1][:NUM_SUFFIX_TOKENS]], model)
        control = observe(victim, [*guess, *suffixes[2][:NUM_SUFFIX_TOKENS]], model)
        yield Trial(is_right, seen, control)


def auc(right: np.ndarray, wrong: np.ndarray) -> float:
    """The chance that one of ``right`` is greater than one of ``wrong``; ties count half (Mann and Whitney)."""
    difference = right[:, None] - wrong[None, :]
    return float(((difference > 0) + 0.5 * (difference == 0)).mean())


def with_interval(right: np.ndarray, wrong: np.ndarray) -> dict[str, Any]:
    """The area, and what 95 % of resampled trials give."""
    rng = np.random.default_rng(0)
    areas = [auc(rng.choice(right, len(right)), rng.choice(wrong, len(wrong))) for _ in range(NUM_RESAMPLES)]
    low, high = np.percentile(areas, [2.5, 97.5])
    return {"auc": round(auc(right, wrong), 4), "interval": [round(float(low), 4), round(float(high), 4)]}


def summarise(trials: Sequence[Trial], who: str) -> dict[str, Any]:
    """The area for each thing seen. What never differed between any two trials is only counted."""
    seen: list[Observation] = [getattr(trial, who) for trial in trials]
    is_right = np.array([trial.is_right for trial in trials])
    names = sorted({name for one in seen for name in one})
    columns = {name: np.array([one.get(name, 0.0) for one in seen]) for name in names}
    varied = [name for name in names if np.ptp(columns[name]) > 0]
    areas = {name: with_interval(columns[name][is_right], columns[name][~is_right]) for name in varied}
    median_ms = {
        world: round(float(np.median(columns[TTFT][mask])), 2)
        for world, mask in (("right_guess", is_right), ("wrong_guess", ~is_right))
    }
    return {"num_things_equal_in_all_trials": len(names) - len(varied), "median_ttft_ms": median_ms, "areas": areas}


def judge(attacker: dict[str, Any], control: dict[str, Any]) -> dict[str, bool]:
    """The claim, and that the measurement could have refuted it. A right guess makes the time shorter: below 0.5."""
    hidden = all(area["interval"][0] <= 0.5 <= area["interval"][1] for area in attacker["areas"].values())
    return {
        "attacker_sees_nothing": hidden,
        "control_found_by_time": control["areas"][TTFT]["interval"][1] < 0.5,
        "control_found_by_cached_tokens": control["areas"]["cached_tokens"]["auc"] == 1.0,
    }


@contextlib.contextmanager
def serving(model: str) -> Iterator[tuple[int, str]]:
    """Our server with two tenants and public metrics: its port and the name of its model."""
    with tempfile.TemporaryDirectory() as folder:
        keys = Path(folder) / "keys"
        keys.write_text(f"{VICTIM}\n{ATTACKER}\n")
        words = [sys.executable, "-m", "anaphora", "serve", model, "--api-key-file", str(keys), "--public-metrics"]
        words += ["--served-model-name", "m", "--block-size", str(BLOCK_SIZE)]
        server = Server("ours", f"{shlex.join(words)} --port {{port}}", Path(folder) / "log")
        try:
            server.start()
            yield int(server.base_url.rsplit(":", 1)[1]), "m"
        finally:
            server.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="a model folder (`anaphora fetch` prints one)")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=8, help="length of the guessed prompt in blocks of 16 tokens")
    parser.add_argument("--out", type=Path, help="a JSON file to write")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped on the way out
    load_before = os.getloadavg()
    with serving(options.model) as (port, name):
        trials = list(play(port, name, options.trials, options.blocks))
    attacker, control = (summarise(trials, who) for who in ("attacker", "control"))
    verdict = judge(attacker, control)
    results = {
        "hardware": describe_hardware(),
        "model": Path(options.model).name,
        "python": platform.python_version(),
        "load_before": load_before,
        "load_after": os.getloadavg(),
        "num_trials": len(trials),
        "num_right_guesses": sum(trial.is_right for trial in trials),
        "num_guessed_tokens": options.blocks * BLOCK_SIZE,
        "verdict": verdict,
        "attacker": attacker,
        "control": control,
        "samples": [[trial.is_right, trial.attacker[TTFT], trial.control[TTFT]] for trial in trials],
    }
    print(json.dumps({key: value for key, value in results.items() if key != "samples"}, indent=2))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(not all(verdict.values()))


if __name__ == "__main__":
    main()
