"""Whole runs on fakes, from plan to records."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from anaphora.lab.arms import Trial
from anaphora.lab.bench import make_header, send
from anaphora.lab.options import BenchOptions
from anaphora.lab.planning import Plan, make_plan
from anaphora.traces.records import RECORDS_FILE, RecordWriter, RequestRecord, Run, read_run
from tests.lab.fakes import FakeServing, FakeTarget


class Listener:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.trials: Sequence[Trial] = ()
        self.costs_s: Sequence[float] | None = None
        self.records: list[RequestRecord] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def waiting(self, text: str) -> None:
        self.notes.append(text)

    def planned(self, trials: Sequence[Trial], costs_s: Sequence[float] | None) -> None:
        self.trials, self.costs_s = trials, costs_s

    def measured(self, record: RequestRecord) -> None:
        self.records.append(record)


def bench(
    folder: Path, options: BenchOptions, listener: Listener | None = None, run_id: str = "r1", **servers: FakeServing
) -> tuple[Run, Plan]:
    """A run on fakes; returns what was recorded."""
    listener = listener or Listener()
    targets = {name: FakeTarget(serving) for name, serving in servers.items()}
    first = next(iter(targets.values()))

    async def run() -> Plan:
        longest = first.serving.max_model_len
        plan = await make_plan(options, first, first, run_id=run_id, max_model_len=longest, note=listener.note)
        with RecordWriter(folder / RECORDS_FILE) as writer:
            writer.begin(
                make_header(
                    options,
                    plan,
                    {"kind": "fake", "model": "SmolLM2-135M-Instruct", "version": None, "cache_settings": {}},
                )
            )
            await send(plan, targets, writer, listener)
        return plan

    plan = asyncio.run(run())
    return read_run(folder), plan
