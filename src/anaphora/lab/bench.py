"""One run from beginning to end: servers, plan, warm-up, measuring; records on disk as they come."""

import dataclasses
import datetime
import secrets
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab import environment
from anaphora.lab.calibration.calibrate import as_json, calibrate
from anaphora.lab.calibration.timed_server import Timing
from anaphora.lab.options import BenchOptions
from anaphora.lab.pace import Pace
from anaphora.lab.planning import Plan, make_plan
from anaphora.lab.resume import done_of, rest_of
from anaphora.lab.runner import Observer, Runner
from anaphora.lab.servers import describe, open_servers
from anaphora.lab.targets.base import PromptTokenizer, Target
from anaphora.lab.targets.openai import OpenAITarget
from anaphora.lab.targets.tokenizer import LocalTokenizer
from anaphora.traces.records import RECORDS_FILE, RecordWriter, Resumption, Run, RunHeader

_CALIBRATION = Timing(first_delay_ms=20.0, num_events=4, interval_ms=5.0)
"""Twenty short streams, one after another: under a second."""


async def run_bench(options: BenchOptions, folder: Path, observer: Observer, *, resumed: Run | None = None) -> None:
    """Measure, and leave ``records.jsonl`` in ``folder``. Whatever ends the run, servers that it started are
    stopped. ``resumed``: the run that the folder holds, to be gone on with."""
    async with AsyncExitStack() as stack:
        writer = stack.enter_context(RecordWriter(folder / RECORDS_FILE, resumes=resumed is not None))
        servers = await open_servers(options, folder, stack, observer)
        await measure(options, servers, writer, observer, resumed)


async def measure(
    options: BenchOptions,
    servers: Mapping[str, OpenAITarget],
    writer: RecordWriter,
    observer: Observer,
    resumed: Run | None = None,
) -> None:
    """Plan, warm up and send, on servers that stand: one named ``main``, or one ``on`` and one ``off``."""
    target = servers.get("main") or servers["on"]
    tokenizer: PromptTokenizer = LocalTokenizer.of_model(options.tokenizer) if options.tokenizer else target
    observer.note("sizing the prompts")
    plan = await make_plan(
        options,
        target,
        tokenizer,
        run_id=secrets.token_hex(4) if resumed is None else resumed.header.run_id,
        max_model_len=target.max_model_len,
        note=observer.note,
        proof_id=secrets.token_hex(4),
        asked_before=target.asked_before,
    )
    observer.note("calibrating the client")
    client_error = await _client_error()
    header = make_header(options, plan, await describe(options, target, plan.cache_settings), client_error)
    if resumed is None:
        writer.begin(header)
    else:
        plan = rest_of(plan, resumed, header)
        num_done = len(done_of(resumed))
        observer.note(f"going on after {num_done} of {header.num_planned_requests} requests")
        writer.resume(Resumption(header.started_at, num_done))
    await send(plan, servers, writer, observer)


async def send(plan: Plan, servers: Mapping[str, Target], writer: RecordWriter, observer: Observer) -> None:
    """Warm up, tell how long the rest should take, then send the trials."""
    runner = Runner(servers, writer, observer)
    warmed = await runner.run(plan.warmups, plan.expected_warmups)
    pace = Pace.of(warmed[-1])
    trials = list(zip(plan.trials, plan.expected, strict=True))
    observer.planned(plan.trials, None if pace is None else [pace.cost_s(*trial) for trial in trials])
    await runner.run(plan.trials, plan.expected)


async def _client_error() -> dict[str, Any] | None:
    """The error of one stream's stamps on this machine now; ``None`` if it cannot be told here."""
    try:
        return as_json(await calibrate((1,), repeats=1, timing=_CALIBRATION))
    except (TargetError, OSError):
        return None


def make_header(
    options: BenchOptions, plan: Plan, target: Mapping[str, Any], client_error: Mapping[str, Any] | None = None
) -> RunHeader:
    """The first line of the records. ``target`` says who is measured, ``client_error`` how late the stamps are."""
    return RunHeader(
        run_id=plan.run_id,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        num_planned_requests=sum(trial.phase != "warmup" for trial in plan.trials),
        settings={
            **_settings_as_stored(options),
            "command": options.command(),
            "mechanism": plan.proof.mechanism.value,
            "mechanism_proof": plan.proof.seen,
            "exact_lengths": plan.exact_lengths,
        },
        target=target,
        environment={**environment.describe(), "client_error": client_error},
    )


def _settings_as_stored(options: BenchOptions) -> dict[str, Any]:
    """Those of the run side by side, those of each experiment below its name. The address is told with the target."""
    shared = {name: value for name, value in dataclasses.asdict(options).items() if name != "target"}
    own = {settings.name: dataclasses.asdict(settings) for settings in options.experiments}
    return {**shared, "experiments": own}
