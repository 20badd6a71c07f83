"""One load run from beginning to end: servers, plan, stages; records on disk as they come."""

import dataclasses
import datetime
import secrets
import shlex
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from anaphora.lab import environment
from anaphora.lab.bench import describe, open_servers
from anaphora.lab.command_line import words_of
from anaphora.lab.load.capacity import Capacity, measure_capacity
from anaphora.lab.load.conductor import Conductor, Watcher
from anaphora.lab.load.jobs import Address
from anaphora.lab.load.planning import LoadPlan, plan_load
from anaphora.lab.load.records import RECORDS_FILE, LoadHeader, LoadWriter, Stage
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.situation import Situation
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import prove_arms
from anaphora.lab.runner import Notes
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.targets.tokenizer import LocalTokenizer
from anaphora.traces.records import Arm

if TYPE_CHECKING:
    from anaphora.lab.targets.base import PromptTokenizer

_ARMS: tuple[Arm, Arm] = ("on", "off")


class Observer(Notes, Watcher, Protocol):
    """Told what happens, for people to watch."""

    def planned(self, plan: LoadPlan) -> None:
        """These stages come now."""
        ...

    def begins(self, stage: Stage) -> None:
        """A stage begins."""
        ...


async def run_load(options: BenchOptions, settings: LoadSettings, folder: Path, observer: Observer) -> None:
    """Measure, and leave the records in ``folder``. Whatever ends the run, no process that it started is left."""
    async with AsyncExitStack() as stack:
        writer = stack.enter_context(LoadWriter(folder / RECORDS_FILE))
        servers = await open_servers(options, folder, stack, observer)
        await measure(options, settings, servers, writer, observer)


async def measure(
    options: BenchOptions,
    settings: LoadSettings,
    servers: Mapping[str, OpenAITarget],
    writer: LoadWriter,
    observer: Observer,
) -> None:
    """Plan and run all stages on servers that stand: one named ``main``, or one ``on`` and one ``off``."""
    by_arm = {arm: servers.get(arm) or servers["main"] for arm in _ARMS}
    target = by_arm["on"]
    run_id = secrets.token_hex(4)
    tokenizer: PromptTokenizer = LocalTokenizer.of_model(options.tokenizer) if options.tokenizer else target
    proof = await prove_arms(options, target, run_id)
    observer.note(f"off means {proof.mechanism.off_means}" + (f": {proof.seen}" if proof.seen else ""))
    observer.note("calibrating the client")
    capacity = await measure_capacity(_most_streams(settings))
    situation = Situation(
        settings=settings,
        target=target,
        tokenizer=tokenizer,
        addresses={arm: _address(server, settings) for arm, server in by_arm.items()},
        model=target.model,
        extra=dict(target.dialect.request_fields),
        max_model_len=target.max_model_len,
        run_id=run_id,
        lang=options.lang,
        seed=options.seed,
        proof=proof,
        capacity=capacity,
        note=observer.note,
    )
    plan = await plan_load(situation)
    proof_seen = {"mechanism": proof.mechanism.value, "mechanism_proof": proof.seen}
    about = await describe(options, target, await target.cache_settings())
    writer.write(_header(options, settings, plan, run_id, {**proof_seen}, about, capacity))
    await _send(plan, by_arm, writer, observer)


async def _send(plan: LoadPlan, by_arm: Mapping[Arm, OpenAITarget], writer: LoadWriter, observer: Observer) -> None:
    observer.planned(plan)
    for stage in plan.stages:
        observer.begins(stage)
        conductor = Conductor(writer.write, by_arm[stage.arm].read_counters, observer)
        window = await conductor.run(stage, plan.shares.jobs(stage), plan.pacing)
        if window.stopped is not None:
            observer.note(window.stopped)


def _most_streams(settings: LoadSettings) -> int:
    """How many a process may have to carry: the most clients; unknown in loops that are not closed."""
    return round(max(settings.levels)) if settings.loop == "closed" else 256


def _address(server: OpenAITarget, settings: LoadSettings) -> Address:
    return Address(server.base.api_url, server.headers, settings.timeout_s)


def _header(
    options: BenchOptions,
    settings: LoadSettings,
    plan: LoadPlan,
    run_id: str,
    proof: Mapping[str, str],
    about: Mapping[str, Any],
    capacity: Capacity,
) -> LoadHeader:
    shared = {
        name: value for name, value in dataclasses.asdict(options).items() if name not in ("target", "experiments")
    }
    return LoadHeader(
        run_id=run_id,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        settings={
            **shared,
            **dataclasses.asdict(settings),
            "slo": settings.limits,
            "command": shlex.join(["anaphora", "bench", settings.name, *words_of(settings), *words_of(options)]),
            **proof,
            "exact_lengths": plan.exact_lengths,
            "ignores_eos": plan.ignores_eos,
        },
        stages=tuple(plan.stages),
        target=about,
        environment={**environment.describe(), "client_error": capacity.as_stored()},
    )
