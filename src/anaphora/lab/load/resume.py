"""Going on with a load run that was cut short: the stages that did not come to their end, whole and with new words."""

import dataclasses
from pathlib import Path

from anaphora.errors import ConfigError
from anaphora.lab.load.planning import LoadPlan
from anaphora.lab.load.record_file import read_load
from anaphora.lab.load.records import INTERRUPTED, LoadHeader, LoadRun, Stage
from anaphora.lab.resume import expect_same_settings, expect_same_target


def read_unfinished(folder: Path) -> LoadRun:
    """The run in that folder. Raises :class:`ConfigError` if nothing of it is left to do, and what
    :func:`~anaphora.lab.load.record_file.read_load` raises."""
    run = read_load(folder)
    if not unfinished_stages(run):
        raise ConfigError(f"the run is complete ({len(run.header.stages)} stages): there is nothing to resume")
    return run


def unfinished_stages(run: LoadRun) -> set[int]:
    """Numbers of the stages that never began, or that the end of the run cut short. What a server brought to its end
    before its time is a finding, and stays."""
    ended = {window.stage for window in run.windows if window.stopped != INTERRUPTED}
    return {stage.number for stage in run.header.stages} - ended


def rest_of(plan: LoadPlan, run: LoadRun, header: LoadHeader) -> LoadPlan:
    """The stages that ``run`` lacks. ``header`` is what the same command would write now.

    Raises:
        ConfigError: settings, target or stages are not those of the run.
    """
    expect_same_settings(run.header.settings, header.settings)
    expect_same_target(run.header.target, header.target)
    if list(map(_place, run.header.stages)) != list(map(_place, plan.stages)):
        raise ConfigError("the run's stages are not those of this plan: it cannot be resumed")
    left = unfinished_stages(run)
    return dataclasses.replace(plan, stages=[stage for stage in plan.stages if stage.number in left])


def _place(stage: Stage) -> tuple[object, ...]:
    """All but the number of processes, which depends on how busy this machine is."""
    return (stage.number, stage.loop, stage.level, stage.arm, stage.round)
