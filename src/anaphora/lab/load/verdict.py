"""Whether a stage was the load that it claims to be: what was not reached is refused, what is doubtful is said."""

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from anaphora.lab.first_wave import num_cold
from anaphora.lab.load.steady import Steady
from anaphora.lab.load.timings import lateness_ms, num_output_tokens, ttft_ms

_REACHED = 0.95
_ON_TIME_MS = 50.0
_LATE_MS = 10.0
_LAG_MS = 25.0
_FEW = 0.1
_BUSY_CPU = 0.85
_GREW = 5
_STOOD_STILL_S = 1.0


class Doubt(NamedTuple):
    """``name`` for machines, ``seen`` for people."""

    name: str
    seen: str


def refusal(steady: Steady) -> str | None:
    """Why a stage's figures are not reported; ``None`` if they are."""
    if not steady.has_window:
        return f"the load never became steady: {steady.window.stopped or 'the run ended'}"
    if steady.seconds < 0.1:
        return "it was cut short as its window began"
    longest_s = max((beat.worst_lag_ns / 1e9 for beat in steady.beats_within()), default=0.0)
    if longest_s > max(_STOOD_STILL_S, _FEW * steady.seconds):
        return f"the client itself stood still for {longest_s:.1f} s: this machine is too busy, or it was paused"
    measured = steady.measured()
    if not measured:
        return "no request was answered in the window"
    if all(record.error is not None for record in measured):
        return f"all {len(measured)} requests failed, the last with: {measured[-1].error}"
    return _not_reached(steady)


def _not_reached(steady: Steady) -> str | None:
    """A concurrency or a rate that was asked for and was not there."""
    stage = steady.stage
    if stage.loop == "closed":
        mean = steady.mean_open()
        if mean < _REACHED * stage.level:
            return (
                f"concurrency {stage.level:g} was not reached: {mean:.1f} requests were open at once on average; "
                "the client or this machine is too slow for it, or requests fail at once"
            )
        return None
    due = steady.window.num_due or 0
    on_time = sum(lateness_ms(record) <= _ON_TIME_MS for record in steady.due())
    if on_time < _REACHED * due:
        return (
            f"the rate was not reached: {on_time} of {due} requests were sent within {_ON_TIME_MS:g} ms of their time; "
            "this machine is too busy for it, or --processes too few"
        )
    return None


def doubts(steady: Steady) -> list[Doubt]:
    """What a reader of the stage's figures must know."""
    return [
        doubt
        for question in (_first_wave, _cut_short, _grew, _ended_early, _client, _short_answers)
        for doubt in question(steady)
    ]


def _first_wave(steady: Steady) -> list[Doubt]:
    """Requests at the window's beginning that paid for a start."""
    measured = sorted(steady.measured(), key=lambda record: record.sent_ns)
    times = [time for record in measured if (time := ttft_ms(record)) is not None]
    cold = num_cold(times)
    if not cold:
        return []
    seen = (
        f"the first {cold} requests took {min(times[:cold]):,.0f} to {max(times[:cold]):,.0f} ms to their first token"
    )
    return [
        Doubt(
            "first wave",
            f"{seen}, those after them {median(times[cold:]):,.0f} ms in the median: a cold start, which is in all "
            f"figures (the median of all is {median(times):,.0f} ms)",
        )
    ]


def _cut_short(steady: Steady) -> list[Doubt]:
    if steady.window.stopped is None:
        return []
    lost = len(steady.due()) - len(steady.measured())
    seen = f"cut short ({steady.window.stopped}): {lost} requests still under way are missing"
    return [Doubt("cut short", f"{seen}, the longest more likely than others" if lost else seen)]


def _grew(steady: Steady) -> list[Doubt]:
    """A server that falls behind an open loop: its latencies grow for as long as the load lasts."""
    if steady.stage.loop == "closed":
        return []
    begin, end = (steady.open_at(instant) for instant in steady.bounds_ns)
    if end - begin > max(_GREW, _FEW * len(steady.due())):
        return [
            Doubt(
                "server fell behind",
                f"open requests rose from {begin} to {end} in the window: the load is more than the server takes, and "
                "latencies depend on how long it lasted",
            )
        ]
    return []


def _ended_early(steady: Steady) -> list[Doubt]:
    until = steady.window.load_until_ns
    measured = steady.measured()
    if until is None or not measured or steady.window.stopped is not None:
        return []
    late = sum(record.end_ns > until + 1e9 for record in measured)
    if late > _FEW * len(measured):
        return [Doubt("load ended early", f"{late} measured requests were answered after the load had ended")]
    return []


def _client(steady: Steady) -> list[Doubt]:
    """The client itself: late sends, a lagging loop, a full processor."""
    found = []
    late = [lateness for record in steady.measured() if (lateness := lateness_ms(record)) > _LATE_MS]
    if len(late) > _FEW * len(steady.measured()):
        seen = f"{len(late)} of {len(steady.measured())} requests were sent more than {_LATE_MS:g} ms late"
        found.append(Doubt("late sends", f"{seen} (those by {median(late):.0f} ms, median)"))
    beats = steady.beats_within()
    slow = sum(beat.worst_lag_ns > _LAG_MS * 1e6 for beat in beats)
    if slow > _FEW * len(beats):
        seen = f"in {slow} of {len(beats)} seconds the client's event loop was late by more than {_LAG_MS:g} ms"
        found.append(Doubt("client lag", seen))
    busiest = max((beat.cpu_share for beat in beats), default=0.0)
    if busiest > _BUSY_CPU:
        found.append(
            Doubt("client busy", f"a sending process used {busiest:.0%} of a processor: take more --processes")
        )
    return found


def _short_answers(steady: Steady) -> list[Doubt]:
    good = [record for record in steady.measured() if record.error is None]
    short = sum(num_output_tokens(record) < record.max_tokens for record in good)
    if short > _FEW * len(good):
        return [Doubt("short answers", f"{short} of {len(good)} answers ended before their --output-tokens")]
    return []


def all_doubts(stages: Sequence[Steady]) -> list[Doubt]:
    """Those of several stages, each said once for every stage that has it."""
    return [doubt for steady in stages for doubt in doubts(steady)]
