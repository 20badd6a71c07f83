"""What forbids to compare two runs, or two places in them, and what a reader must know before trusting that."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.arms import Mechanism
from anaphora.lab.statistics import median
from anaphora.lab.witnesses import prompt_tokens
from anaphora.traces.records import RequestRecord, Run

_SAME_LENGTH = 0.02
_BUSY_SHARE = 0.7


def obstacles(a: Run, b: Run) -> list[str]:
    """Why the runs answer different questions; empty if they can be compared."""
    found = []
    models = [str(run.header.target["model"]) for run in (a, b)]
    if models[0] != models[1]:
        found.append(f"A measured the model {models[0]}, B {models[1]}")
    means = [Mechanism(run.header.settings["mechanism"]).off_means for run in (a, b)]
    if means[0] != means[1]:
        found.append(f"“off” was {means[0]} in A, and {means[1]} in B")
    return found


def place_obstacle(a: Sequence[RequestRecord], b: Sequence[RequestRecord]) -> str | None:
    """Why the requests of one place are not alike; ``None`` if they are."""
    lengths = [median([n for record in side if (n := prompt_tokens(record)) is not None]) for side in (a, b)]
    if lengths[0] and lengths[1] and abs(lengths[1] / lengths[0] - 1) > _SAME_LENGTH:
        return f"its prompts have {lengths[0]:,.0f} tokens in A and {lengths[1]:,.0f} in B"
    limits = [sorted({record.max_tokens for record in side}) for side in (a, b)]
    if limits[0] != limits[1]:
        return f"its answers have up to {max(limits[0])} tokens in A and up to {max(limits[1])} in B"
    return None


def remarks(a: Run, b: Run) -> list[str]:
    """What else differs between the runs, and may be the cause of what is found."""
    if a.header.run_id == b.header.run_id:
        return ["A and B are the same run"]
    facts: Sequence[tuple[str, Any, Any]] = (
        ("server", _server(a.header.target), _server(b.header.target)),
        ("processor", a.header.environment.get("processor"), b.header.environment.get("processor")),
        ("number of processors", a.header.environment.get("num_cpus"), b.header.environment.get("num_cpus")),
        ("anaphora", a.header.environment.get("anaphora"), b.header.environment.get("anaphora")),
        ("texts", a.header.settings.get("lang"), b.header.settings.get("lang")),
        ("server options", _options(a), _options(b)),
    )
    found = [
        f"{name}: {one or 'unknown'} in A, {other or 'unknown'} in B" for name, one, other in facts if one != other
    ]
    found += [f"the machine was busy when {name} began" for name, run in (("A", a), ("B", b)) if _was_busy(run)]
    for name, run in (("A", a), ("B", b)):
        num_sent = sum(record.phase != "warmup" for record in run.requests)
        if num_sent < run.header.num_planned_requests:
            found.append(f"{name} was cut short: {num_sent} of {run.header.num_planned_requests} requests")
    return found


def _server(target: Mapping[str, Any]) -> str:
    return f"{target['kind']} {target.get('version') or ''}".strip()


def _options(run: Run) -> str:
    return " ".join(run.header.settings.get("server_options") or ())


def _was_busy(run: Run) -> bool:
    environment = run.header.environment
    return bool(environment["load_average"][0] >= _BUSY_SHARE * environment["num_cpus"])
