"""What is known when a load run is planned: settings, target, and how off is brought about."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anaphora.lab.arms import ArmsProof
from anaphora.lab.load.capacity import Capacity
from anaphora.lab.load.jobs import Address
from anaphora.lab.load.records import Stage
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.load.workloads import AnyWorkload, Asking
from anaphora.lab.targets.base import PromptTokenizer, Target
from anaphora.traces.records import Arm

TAIL_S = 60.0
"""So long the load goes on at most for the measured requests that are still unanswered."""

Workloads = Callable[[Stage], AnyWorkload]
"""What the requests of a stage ask."""
Schedule = Callable[[Stage], list[tuple[float, int]]]
"""When the requests of a stage are due, in seconds from its beginning, in order; and which they are."""


@dataclass(frozen=True, slots=True)
class Situation:
    """``note`` is told what people should know."""

    settings: LoadSettings
    target: Target
    tokenizer: PromptTokenizer
    addresses: Mapping[Arm, Address]
    model: str
    extra: Mapping[str, bool]
    """Further fields that requests to this kind of server have."""
    max_model_len: int | None
    run_id: str
    lang: str
    seed: int
    proof: ArmsProof
    capacity: Capacity
    note: Callable[[str], None]
    takes_system: bool = True
    """Whether the model has system messages."""
    num_resumed: int = 0
    """How often the run was resumed: what is sent again has other words, which no server has seen."""

    def asking(self, stage: Stage, ignores_eos: bool) -> Asking:
        """What all requests of a stage have in common."""
        return Asking(
            model=self.model,
            seed=f"{self.run_id}/{stage.round}/{stage.level:g}" + f"/again-{self.num_resumed}" * bool(self.num_resumed),
            mechanism=self.proof.mechanism,
            must_miss=stage.arm == "off",
            ignores_eos=ignores_eos,
            extra=self.extra,
            takes_system=self.takes_system,
        )
