"""One load run from beginning to end: servers, plan, stages; records on disk as they come."""

import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from anaphora.lab.load.capacity import measure_capacity
from anaphora.lab.load.conductor import Conductor, Watcher
from anaphora.lab.load.header import header_of, settings_as_stored
from anaphora.lab.load.jobs import Address
from anaphora.lab.load.planning import LoadPlan, plan_load
from anaphora.lab.load.prediction import Predictor
from anaphora.lab.load.record_file import RECORDS_FILE, Line, LoadWriter
from anaphora.lab.load.records import LoadRecord, LoadResumption, LoadRun, Stage
from anaphora.lab.load.resume import rest_of
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.situation import Situation
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import prove_arms
from anaphora.lab.resume import expect_same_settings
from anaphora.lab.runner import Notes
from anaphora.lab.servers import describe, open_servers
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


async def run_load(
    options: BenchOptions, settings: LoadSettings, folder: Path, observer: Observer, *, resumed: LoadRun | None = None
) -> None:
    """Measure, and leave the records in ``folder``. Whatever ends the run, no process that it started is left.
    ``resumed``: the run that the folder holds, to be gone on with."""
    if resumed is not None:
        expect_same_settings(resumed.header.settings, settings_as_stored(options, settings))
    async with AsyncExitStack() as stack:
        writer = stack.enter_context(LoadWriter(folder / RECORDS_FILE, resumes=resumed is not None))
        servers = await open_servers(options, folder, stack, observer)
        await measure(options, settings, servers, writer, observer, resumed)


async def measure(
    options: BenchOptions,
    settings: LoadSettings,
    servers: Mapping[str, OpenAITarget],
    writer: LoadWriter,
    observer: Observer,
    resumed: LoadRun | None = None,
) -> None:
    """Plan and run all stages on servers that stand: one named ``main``, or one ``on`` and one ``off``."""
    by_arm = {arm: servers.get(arm) or servers["main"] for arm in _ARMS}
    target = by_arm["on"]
    tokenizer: PromptTokenizer = LocalTokenizer.of_model(options.tokenizer) if options.tokenizer else target
    proof = await prove_arms(options, target, secrets.token_hex(4))
    observer.note(f"off means {proof.mechanism.off_means}" + (f": {proof.seen}" if proof.seen else ""))
    observer.note("calibrating the client")
    situation = Situation(
        settings=settings,
        target=target,
        tokenizer=tokenizer,
        addresses={arm: _address(server, settings) for arm, server in by_arm.items()},
        model=target.model,
        extra=target.request_fields,
        max_model_len=target.max_model_len,
        run_id=secrets.token_hex(4) if resumed is None else resumed.header.run_id,
        lang=options.lang,
        seed=options.seed,
        proof=proof,
        capacity=await measure_capacity(_most_streams(settings)),
        note=observer.note,
        takes_system=target.takes_system,
        num_resumed=0 if resumed is None else 1 + len(resumed.resumptions),
    )
    plan = await plan_load(situation)
    cache = await target.cache_settings()
    about = await describe(options, target, cache)
    header = header_of(
        options, settings, plan, run_id=situation.run_id, proof=proof, target=about, capacity=situation.capacity
    )
    if resumed is None:
        writer.write(header)
    else:
        num_planned = len(plan.stages)
        plan = rest_of(plan, resumed, header)
        observer.note(f"going on after {num_planned - len(plan.stages)} of {num_planned} stages")
        writer.write(LoadResumption(started_at=header.started_at, stages=tuple(plan.stages)))
    await _send(plan, by_arm, writer, observer, Predictor(tokenizer, proof.mechanism, cache, observer.waiting))


async def _send(
    plan: LoadPlan,
    by_arm: Mapping[Arm, OpenAITarget],
    writer: LoadWriter,
    observer: Observer,
    predictor: Predictor,
) -> None:
    observer.planned(plan)
    for stage in plan.stages:
        observer.begins(stage)
        seen: list[LoadRecord] = []

        def write(value: Line, seen: list[LoadRecord] = seen) -> None:
            writer.write(value)
            if isinstance(value, LoadRecord):
                seen.append(value)

        conductor = Conductor(write, by_arm[stage.arm].read_counters, observer)
        window = await conductor.run(stage, plan.shares.jobs(stage), plan.pacing)
        if window.stopped is not None:
            observer.note(window.stopped)
        writer.write(await predictor.predict(stage, plan.shares.workload(stage), seen))


def _most_streams(settings: LoadSettings) -> int:
    """How many a process may have to carry: the most clients; unknown in loops that are not closed."""
    return round(max(settings.levels)) if settings.loop == "closed" else 256


def _address(server: OpenAITarget, settings: LoadSettings) -> Address:
    return Address(server.base.api_url, server.headers, settings.timeout_s)
