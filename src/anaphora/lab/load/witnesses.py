"""Three witnesses of a hit under load: the answers' ``usage``, the server's counters, and the prediction.

Compared over whole stages, warm-up and cool-down included: counters cannot be read in between without disturbing what
is measured.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.counters import difference, total
from anaphora.lab.load.cells import accepted
from anaphora.lab.load.records import LoadRecord, LoadRun, StagePrediction
from anaphora.lab.load.steady import Steady
from anaphora.lab.usage import read_usage
from anaphora.lab.witnesses import HIDDEN, OTHER_LENGTH, Share, gap_to_prediction

STILL_COMPUTED = "less than predicted: another request was still computing the same beginning"
Expected = tuple[int | None, int]
"""Tokens of a prompt, ``None`` where they were not counted; and how many of them should come from the cache."""


def witnesses_of(run: LoadRun, stages: Sequence[Steady]) -> list[dict[str, Any]]:
    """A row for every level and arm of which a stage was steady; a witness that is silent is ``None``."""
    predictions = {one.stage: one for one in run.predictions}
    num_prefixes = int(run.header.settings.get("num_prefixes", 1))
    good = accepted(stages)
    places = sorted({(one.stage.level, one.stage.arm) for one in good})
    return [
        {
            "level": level,
            "arm": arm,
            **_row(
                [one for one in good if (one.stage.level, one.stage.arm) == (level, arm)], predictions, num_prefixes
            ),
        }
        for level, arm in places
    ]


def _row(stages: Sequence[Steady], predictions: Mapping[int, StagePrediction], num_prefixes: int) -> dict[str, Any]:
    found = [(one, predictions.get(one.stage.number)) for one in stages]
    reasons = [_why_not(known) for _, known in found if known is None or known.reason is not None]
    predicted = [(one, known) for one, known in found if known is not None and known.reason is None]
    metrics = total(difference(one.window.counters_before, one.window.counters_after) for one in stages)
    gaps: Counter[str] = Counter()
    for one, known in predicted:
        gaps.update(_gaps(one, known, num_prefixes))
    return {
        "usage": _usage([record for one in stages for record in one.records]),
        "metrics": None if metrics is None or metrics.unit != "tokens" else (metrics.cached, metrics.queried),
        "predicted": None if reasons else _sum([_predicted(one, known) for one, known in predicted]),
        "not_predicted": "; ".join(dict.fromkeys(reasons)) or None,
        "num_unanswered": sum(record.error is not None for one in stages for record in one.records),
        "gaps": dict(sorted(gaps.items())),
    }


def _why_not(prediction: StagePrediction | None) -> str:
    return "nothing was predicted in this run" if prediction is None else prediction.reason or ""


def _usage(records: Sequence[LoadRecord]) -> Share | None:
    told = [
        (float(usage.num_cached_tokens), float(usage.num_prompt_tokens))
        for record in records
        if record.error is None
        and (usage := read_usage(record.usage)).num_prompt_tokens is not None
        and usage.num_cached_tokens is not None
    ]
    return _sum(told) if told else None


def _expected(prediction: StagePrediction) -> dict[int, Expected]:
    lengths = prediction.prompt_tokens or [None] * len(prediction.numbers)
    return dict(zip(prediction.numbers, zip(lengths, prediction.cached_tokens, strict=True), strict=True))


def _predicted(one: Steady, prediction: StagePrediction) -> Share:
    """Over the requests that were answered, as in ``usage``."""
    known = _expected(prediction)
    good = [record for record in one.records if record.error is None and record.number in known]
    lengths = [known[record.number][0] or read_usage(record.usage).num_prompt_tokens or 0 for record in good]
    return float(sum(known[record.number][1] for record in good)), float(sum(lengths))


def _gaps(one: Steady, prediction: StagePrediction, num_prefixes: int) -> list[str]:
    """Of every answered request of a stage that is not as predicted, the class of the difference."""
    known, ready = _expected(prediction), _first_ready(one.records, num_prefixes)
    named = [
        _gap(record, known[record.number], one, prediction.block_size, ready.get(_prefix(record, num_prefixes)))
        for record in one.records
        if record.error is None and record.number in known
    ]
    return [name for name in named if name is not None]


def _gap(record: LoadRecord, expected: Expected, of: Steady, block_size: int, ready_ns: int | None) -> str | None:
    usage = read_usage(record.usage)
    if None not in (usage.num_prompt_tokens, expected[0]) and usage.num_prompt_tokens != expected[0]:
        return OTHER_LENGTH
    if usage.num_cached_tokens is None:
        return HIDDEN
    gap = usage.num_cached_tokens - expected[1]
    if gap < -block_size and ready_ns is not None and record.sent_ns < ready_ns:
        return STILL_COMPUTED
    return gap_to_prediction(gap, of.stage.arm, block_size)


def _first_ready(records: Sequence[LoadRecord], num_prefixes: int) -> dict[int, int]:
    """When the first answer behind each system prompt had begun: from then on it is cached."""
    ready: dict[int, int] = {}
    for record in records:
        if record.error is None and record.token_offsets_ns:
            prefix, begun_ns = _prefix(record, num_prefixes), record.sent_ns + record.token_offsets_ns[0]
            ready[prefix] = min(begun_ns, ready.get(prefix, begun_ns))
    return ready


def _prefix(record: LoadRecord, num_prefixes: int) -> int:
    return record.number % num_prefixes


def _sum(parts: Sequence[Share]) -> Share:
    return sum(cached for cached, _ in parts), sum(prompt for _, prompt in parts)
