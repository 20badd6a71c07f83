"""The planted runs over real loopback sockets: the lab's planning, client and records against a server that waits.

Each seed gives five runs of the lab: one of all experiments, whose intervals are held against the truth; two of switch
and gradient, as they are and 5 % slower, that are compared with it; and two switches, whose arms are equal and 5 %
apart. The host's own noise comes on top of the planted one. The way through the sockets is part of every TTFT, so its
median, measured for each seed with a planted time that does not vary, counts as planted too.
"""

import dataclasses
import json
import tempfile
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.lab.estimates import BETWEEN_ARMS, arms_differ, differs, estimates_of
from benchmarks.lab.planted import Noise, Planted

from anaphora.lab.address import BaseUrl
from anaphora.lab.bench import make_header, send
from anaphora.lab.experiments.base import ExperimentSettings
from anaphora.lab.experiments.costs import CostsSettings
from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.http import HttpClient
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import make_plan
from anaphora.lab.servers import describe, open_servers
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.targets.body import Body
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.traces.records import RECORDS_FILE, RecordWriter, Run, read_run

SERVER = "benchmarks.lab.planted_server"
TRUE = Planted(fixed_ms=5.0, computed_ms=30.0, cached_ms=1.0, squared_ms=0.5, product_ms=1.0)
NOISE = Noise(share=0.02)
SWITCH, GRADIENT, COSTS = SwitchSettings(output_tokens=1), GradientSettings(), CostsSettings(steps=12)
_NUM_PROBES = 30


async def measured(base: BaseUrl, seed: int, effect: float) -> dict[str, Any]:
    """What the five runs of a seed say: one row of the raw results."""
    transport_ms = await _transport_ms(base, seed)
    true = dataclasses.replace(TRUE, fixed_ms=TRUE.fixed_ms + transport_ms)
    first = await run(base, TRUE, (SWITCH, GRADIENT, COSTS), seed, 0)
    same = await run(base, TRUE, (SWITCH, GRADIENT), seed, 1)
    slower = await run(base, TRUE.slower(effect), (SWITCH, GRADIENT), seed, 2)
    equal = await run(base, TRUE.gaining(0.0), (SWITCH,), seed, 3)
    apart = await run(base, TRUE.gaining(effect), (SWITCH,), seed, 4)
    return {
        "seed": seed,
        "transport_ms": round(transport_ms, 4),
        "estimates": [
            {name: value if name == "name" else round(value, 5) for name, value in dataclasses.asdict(one).items()}
            for one in estimates_of(first.requests, true, NOISE, seed)
        ],
        "called_without_effect": differs(first, same, seed) | {BETWEEN_ARMS: arms_differ(equal.requests, seed)},
        "called_with_effect": differs(first, slower, seed) | {BETWEEN_ARMS: arms_differ(apart.requests, seed)},
    }


async def run(
    base: BaseUrl, planted: Planted, experiments: Sequence[ExperimentSettings], seed: int, number: int
) -> Run:
    """One run as `anaphora bench` makes it, but for the client's calibration and the report."""
    await _plant(base, planted, NOISE, 10 * seed + number)
    options = BenchOptions(experiments=tuple(experiments), target=str(base), arms="salt", seed=seed)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        writer = stack.enter_context(RecordWriter(folder / RECORDS_FILE))
        servers = await open_servers(options, folder, stack, _Silent())
        target = servers["main"]
        run_id = f"{10 * seed + number:08x}"
        plan = await make_plan(
            options, target, target, run_id=run_id, max_model_len=target.max_model_len, note=_Silent().note
        )
        writer.begin(make_header(options, plan, await describe(options, target, plan.cache_settings)))
        await send(plan, servers, writer, _Silent())
        return read_run(folder)


async def _transport_ms(base: BaseUrl, seed: int) -> float:
    """How much longer the client sees a request take than was planted, in the median."""
    await _plant(base, Planted(5.0, 0.0, 0.0, 0.0, 0.0), Noise(), seed)
    target = OpenAITarget(base, clock=time.monotonic_ns)
    await target.choose_model(None)
    request = ChatRequest(messages=({"role": "user", "content": "word " * 1000},), max_tokens=1)
    times = []
    for _ in range(_NUM_PROBES):
        reply = await target.chat(request)
        assert reply.answer.first_token_ns is not None
        times.append((reply.answer.first_token_ns - reply.sent_ns) / 1e6 - 5.0)
    await target.close()
    return float(np.median(times))


async def _plant(base: BaseUrl, planted: Planted, noise: Noise, seed: int) -> None:
    client = HttpClient(base, clock=time.monotonic_ns)
    body = {"planted": dataclasses.asdict(planted), "noise": dataclasses.asdict(noise), "seed": seed}
    await client.exchange("POST", "/plant", body=json.dumps(body).encode(), sink=Body())
    await client.close()


class _Silent:
    """An observer who says nothing."""

    def note(self, text: str) -> None:
        pass

    waiting = note

    def planned(self, trials: object, costs_s: object) -> None:
        pass

    def measured(self, record: object) -> None:
        pass
