"""The stages of a sweep in their order, and who of each sends what."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from anaphora.lab.load.arrivals import deal
from anaphora.lab.load.jobs import Address, ClosedShare, Job, OpenShare
from anaphora.lab.load.records import Loop, Stage
from anaphora.lab.load.workloads import AnyWorkload
from anaphora.traces.records import Arm

_ARMS: tuple[Arm, Arm] = ("on", "off")


def sweep(loop: Loop, levels: Sequence[float], rounds: int, processes: Callable[[float], int]) -> list[Stage]:
    """Every level in both arms, as often as there are rounds. Levels go up and, in the next round, down; the arms of a
    level take turns in being first: a machine that gets slower does so for both."""
    stages: list[Stage] = []
    for number in range(rounds):
        ordered = sorted(levels, reverse=number % 2 == 1)
        for place, level in enumerate(ordered):
            for arm in _ARMS if (place + number) % 2 == 0 else _ARMS[::-1]:
                stages.append(
                    Stage(
                        number=len(stages),
                        loop=loop,
                        level=level,
                        arm=arm,
                        round=number,
                        num_processes=processes(level),
                    )
                )
    return stages


@dataclass(frozen=True, slots=True)
class Shares:
    """What a stage sends: ``workload`` by stage; ``schedule`` by stage, ``None`` in a closed loop. ``addresses`` by
    arm."""

    addresses: Mapping[Arm, Address]
    workload: Callable[[Stage], AnyWorkload]
    schedule: Callable[[Stage], Sequence[tuple[float, int]]] | None
    ramp_s: float
    max_open_per_process: int

    def jobs(self, stage: Stage) -> list[Job]:
        """The stage's part for each of its processes."""
        workload = self.workload(stage)
        return [
            Job(stage.number, process, self.addresses[stage.arm], workload, share)
            for process, share in enumerate(self._of(stage))
        ]

    def _of(self, stage: Stage) -> Sequence[ClosedShare | OpenShare]:
        num = stage.num_processes
        if self.schedule is None:
            clients = range(round(stage.level))
            return [ClosedShare(list(clients[part::num]), len(clients), self.ramp_s) for part in range(num)]
        return [OpenShare(hand, self.max_open_per_process) for hand in deal(self.schedule(stage), num)]
