"""What one sending process does in one stage, as data that goes to it in one line."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.load.workloads import AnyWorkload, Asking, BlockPrompt, BlockWorkload, ChatWorkload, VerbatimWorkload

_WORKLOADS: Mapping[str, type[AnyWorkload]] = {
    "chat": ChatWorkload,
    "blocks": BlockWorkload,
    "verbatim": VerbatimWorkload,
}
_WORKLOAD_NAMES = {kind: name for name, kind in _WORKLOADS.items()}


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """Where requests go. ``headers`` may hold a key: they are never shown."""

    api_url: str
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    timeout_s: float = 600.0


@dataclasses.dataclass(frozen=True, slots=True)
class ClosedShare:
    """Some of the ``num_clients`` of a closed loop: each asks again when it was answered. Their first requests are
    spread over ``ramp_s``, so that they do not march in step."""

    clients: Sequence[int]
    num_clients: int
    ramp_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class OpenShare:
    """Requests that are due at their times whatever the server does: (seconds from the beginning, number), in order.
    More than ``max_open`` at once are not sent: the process could not time them truly."""

    schedule: Sequence[tuple[float, int]]
    max_open: int


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """One process's part of a stage."""

    stage: int
    process: int
    address: Address
    workload: AnyWorkload
    share: ClosedShare | OpenShare

    @property
    def num_connections(self) -> int:
        """How many connections stand before the beginning."""
        return len(self.share.clients) if isinstance(self.share, ClosedShare) else min(8, self.share.max_open)


def encode_job(job: Job) -> str:
    """One line of JSON."""
    share = "clients" if isinstance(job.share, ClosedShare) else "schedule"
    return json.dumps({**dataclasses.asdict(job), "kinds": [_WORKLOAD_NAMES[type(job.workload)], share]})


def decode_job(line: str | bytes) -> Job:
    """The inverse of :func:`encode_job`."""
    value = json.loads(line)
    workload_kind, share_kind = value["kinds"]
    share: ClosedShare | OpenShare
    if share_kind == "clients":
        share = ClosedShare(**value["share"])
    else:
        share = OpenShare([tuple(due) for due in value["share"]["schedule"]], value["share"]["max_open"])
    workload = _workload(_WORKLOADS[workload_kind], value["workload"])
    return Job(value["stage"], value["process"], Address(**value["address"]), workload, share)


def _workload(kind: type[AnyWorkload], fields: dict[str, Any]) -> AnyWorkload:
    asking = fields.pop("asking")
    asking["mechanism"] = Mechanism(asking["mechanism"])
    if kind is BlockWorkload:
        fields["prompts"] = [BlockPrompt(**prompt) for prompt in fields["prompts"]]
    return kind(asking=Asking(**asking), **fields)
