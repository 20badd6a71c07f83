"""Whether a load run's numbers can be trusted: checks made from its records, each with what was seen."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anaphora.lab.arm_checks import off_missed
from anaphora.lab.arms import Mechanism
from anaphora.lab.check import Check
from anaphora.lab.load.client_error import client_error
from anaphora.lab.load.records import LoadRecord, LoadRun
from anaphora.lab.load.witnesses import STILL_COMPUTED
from anaphora.lab.time_checks import quiet_machine
from anaphora.lab.usage import read_usage
from anaphora.lab.witnesses import WITHIN_ONE_BLOCK

_FEW = 0.1
_WITNESSES_APART = 0.1
_EXPLAINED = {STILL_COMPUTED, WITHIN_ONE_BLOCK}
"""Differences between usage and prediction that say nothing against either."""
_NAMES = (
    "first wave",
    "server fell behind",
    "load ended early",
    "late sends",
    "client lag",
    "client busy",
    "cut short",
    "short answers",
)

Load = Mapping[str, Any]


def checks(run: LoadRun, load: Load, witnesses: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All checks, in the order in which a doubting reader asks. ``witnesses``: see
    :func:`~anaphora.lab.load.witnesses.witnesses_of`."""
    arm_of = {stage.number: stage.arm for stage in run.header.stages}
    good = [record for record in run.requests if record.error is None]
    by_arm = {arm: [r for r in good if arm_of[r.stage] == arm] for arm in ("on", "off")}
    mechanism = Mechanism(run.header.settings["mechanism"])
    ask: Sequence[Callable[[], Check]] = (
        lambda: _complete(run),
        lambda: _reached(load),
        lambda: _failures(load),
        lambda: off_missed(mechanism, [read_usage(record.usage).num_cached_tokens for record in by_arm["off"]]),
        lambda: _on_hit(by_arm["on"]),
        lambda: _witnesses(load),
        lambda: _as_predicted(witnesses),
        lambda: _streamed(good),
        lambda: _warm_connections(good),
        lambda: quiet_machine(run.header.environment),
        lambda: client_error(run),
    )
    answers = [question() for question in ask]
    answers += [check for name in _NAMES if (check := _doubted(load, name)) is not None]
    return [asdict(answer) for answer in answers]


def _cells(load: Load) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for row in load["rows"]:
        for arm in ("off", "on"):
            yield f"{row['level']:g} {arm}", row[arm]


def _complete(run: LoadRun) -> Check:
    whole = sum(window.stopped is None for window in run.windows)
    planned = len(run.header.stages)
    seen = f"{whole} of {planned} planned stages ran to their end"
    return Check("complete", "ok" if whole == planned else "warning", seen)


def _reached(load: Load) -> Check:
    refused = [name for name, cell in _cells(load) if cell["refused"] is not None]
    partly = [name for name, cell in _cells(load) if cell["refused"] is None and cell["num_stages_refused"]]
    if refused or partly:
        seen = "; ".join(
            f"{text}: {', '.join(names)}"
            for text, names in (("not reported", refused), ("some repetitions left out", partly))
            if names
        )
        return Check("load reached", "warning", seen)
    return Check("load reached", "ok", "every level was the load that it says, in both arms")


def _failures(load: Load) -> Check:
    failed = sum(cell["num_failed"] for _, cell in _cells(load) if cell["refused"] is None)
    measured = sum(cell["num_measured"] for _, cell in _cells(load) if cell["refused"] is None)
    return Check("answers", "warning" if failed else "ok", f"{failed} of {measured} measured requests failed")


def _on_hit(on: Sequence[LoadRecord]) -> Check:
    cached = [count for record in on if (count := read_usage(record.usage).num_cached_tokens) is not None]
    if not on or len(cached) < len(on):
        return Check(
            "on requests hit", "unknown", f"{len(on) - len(cached)} of {len(on)} do not tell their cached tokens"
        )
    hit = sum(count > 0 for count in cached)
    return Check("on requests hit", "ok" if hit else "warning", f"{hit} of {len(on)} took tokens from the cache")


def _witnesses(load: Load) -> Check:
    """Usage against counters, both over whole stages. Abandoned requests are in the counters alone."""
    pairs = {
        name: (cell["hit_rate_percent"]["usage_of_whole_stages"], cell["hit_rate_percent"]["metrics"])
        for name, cell in _cells(load)
        if cell["refused"] is None and None not in cell["hit_rate_percent"].values()
    }
    if not pairs:
        return Check("witnesses agree", "unknown", "usage or metrics do not tell cached tokens")
    apart = {name: abs(usage - metrics) for name, (usage, metrics) in pairs.items()}
    worst = max(apart, key=lambda name: apart[name])
    seen = (
        f"hit rates by usage and by metrics, warm-up included, differ by at most {apart[worst]:.2f} points, at {worst}"
    )
    far = apart[worst] > _WITNESSES_APART
    more = ": others may have asked the server meanwhile, or it counts otherwise" if far else ""
    return Check("witnesses agree", "warning" if far else "ok", seen + more)


def _as_predicted(witnesses: Sequence[Mapping[str, Any]]) -> Check:
    """Usage against prediction, request by request; what is not predicted is said with its reason."""
    name = "hits as predicted"
    known = [row for row in witnesses if row["predicted"] is not None and row["usage"] is not None]
    reasons = list(dict.fromkeys(row["not_predicted"] for row in witnesses if row["not_predicted"] is not None))
    if not known:
        return Check(name, "unknown", f"not predicted: {'; '.join(reasons)}" if reasons else "no witness speaks")
    parted: Counter[str] = Counter()
    for row in known:
        parted.update(row["gaps"])
    usage, predicted = (sum(row[witness][0] for row in known) for witness in ("usage", "predicted"))
    if not parted:
        return Check(name, "ok", f"to the token, in every answered request: {usage:,.0f} cached tokens")
    seen = [f"{usage:,.0f} cached tokens, {predicted:,.0f} were predicted"]
    seen += [f"{number:,} × {gap}" for gap, number in parted.items()]
    return Check(name, "ok" if set(parted) <= _EXPLAINED else "warning", "; ".join(seen))


def _streamed(good: Sequence[LoadRecord]) -> Check:
    whole = sum(not record.streamed for record in good)
    empty = sum(record.streamed and not record.token_offsets_ns for record in good)
    tokens = sum(read_usage(record.usage).num_completion_tokens or 0 for record in good)
    events = sum(len(record.token_offsets_ns) for record in good)
    missing = [f"{whole} answers were not streamed: they have no TTFT"] * bool(whole)
    missing += [f"{empty} answers carried no token: they have no TTFT"] * bool(empty)
    if missing:
        return Check("streamed", "warning", "; ".join(missing))
    if events and tokens > 1.5 * events:
        seen = f"an event carries {tokens / events:.1f} tokens on average: ITL is between events, not tokens"
        return Check("streamed", "warning", seen)
    return Check("streamed", "ok", "every answer came as a stream, about one token an event")


def _warm_connections(good: Sequence[LoadRecord]) -> Check:
    reused = sum(record.connection_reused for record in good)
    seen = f"{reused} of {len(good)} requests used a connection that had been used before; the others one that stood"
    return Check("warm connections", "ok" if len(good) - reused <= max(64, _FEW * len(good)) else "warning", seen)


def _doubted(load: Load, name: str) -> Check | None:
    """A doubt about stages, with every level that has it."""
    seen = [
        f"{cell_name}: {doubt['seen']}"
        for cell_name, cell in _cells(load)
        if cell["refused"] is None
        for doubt in cell["doubts"]
        if doubt["name"] == name
    ]
    if not seen:
        return None
    more = f" (and {len(seen) - 2} more)" if len(seen) > 2 else ""
    return Check(name, "warning", "; ".join(seen[:2]) + more)
