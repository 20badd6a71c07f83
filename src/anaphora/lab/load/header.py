"""The first line of a load run's records: what was asked, of whom, and from where."""

import dataclasses
import datetime
import shlex
from collections.abc import Mapping
from typing import Any

from anaphora.lab import environment
from anaphora.lab.arms import ArmsProof
from anaphora.lab.command_line import words_of
from anaphora.lab.load.capacity import Capacity
from anaphora.lab.load.planning import LoadPlan
from anaphora.lab.load.records import LoadHeader
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.options import BenchOptions


def settings_as_stored(options: BenchOptions, settings: LoadSettings) -> dict[str, Any]:
    """All that a person chose. Of whom it was asked is told with the target."""
    shared = {
        name: value for name, value in dataclasses.asdict(options).items() if name not in ("target", "experiments")
    }
    return {
        **shared,
        **dataclasses.asdict(settings),
        "slo": settings.limits,
        "command": shlex.join(["anaphora", "bench", settings.name, *words_of(settings), *words_of(options)]),
    }


def header_of(
    options: BenchOptions,
    settings: LoadSettings,
    plan: LoadPlan,
    *,
    run_id: str,
    proof: ArmsProof,
    target: Mapping[str, Any],
    capacity: Capacity,
) -> LoadHeader:
    """``target`` says who is measured, ``capacity`` how truly this machine times."""
    return LoadHeader(
        run_id=run_id,
        started_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        settings={
            **settings_as_stored(options, settings),
            "mechanism": proof.mechanism.value,
            "mechanism_proof": proof.seen,
            "exact_lengths": plan.exact_lengths,
            "ignores_eos": plan.ignores_eos,
        },
        stages=tuple(plan.stages),
        target=target,
        environment={**environment.describe(), "client_error": capacity.as_stored()},
    )
