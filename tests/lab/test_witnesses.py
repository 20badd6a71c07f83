"""Three witnesses and the names of their differences."""

from typing import Any

import pytest

from anaphora.lab.witnesses import cached_tokens, disagreements, gaps, hit_rates, shares
from anaphora.traces.records import CounterReading
from tests.lab.records import record


def usage(cached: int | None, prompt: int = 100) -> dict[str, object]:
    details = None if cached is None else {"cached_tokens": cached}
    return {"prompt_tokens": prompt, "prompt_tokens_details": details}


def reading(n: int) -> CounterReading:
    return CounterReading("f", "tokens", 100.0 * n, 90.0 * n)


def test_each_witness_speaks_for_itself() -> None:
    records = [
        record(counters_before=reading(1), counters_after=reading(2)),
        record(counters_before=reading(2), counters_after=reading(3), usage=usage(None)),
        record(error="gone", usage=usage(0)),
    ]
    assert shares(records) == {"usage": (96, 100), "metrics": (180, 200), "predicted": (192, 200)}
    assert hit_rates(records) == {"usage": 96.0, "metrics": 90.0, "predicted": 96.0}


def test_silence_is_not_zero() -> None:
    silent = record(usage=None, num_prompt_tokens=None, predicted_cached_tokens=None)
    assert hit_rates([silent]) == {"usage": None, "metrics": None, "predicted": None}
    off = record(counters_before=reading(1), counters_after=reading(1), usage=usage(0), predicted_cached_tokens=0)
    assert hit_rates([off]) == {"usage": 0.0, "metrics": None, "predicted": 0.0}
    hole = [record(counters_before=reading(1), counters_after=reading(2)), record()]
    assert shares(hole)["metrics"] is None


@pytest.mark.parametrize(
    ("cached", "prompt", "predicted", "name"),
    [
        (96, 100, 96, None),
        (None, 100, 96, "hidden by the server"),
        (96, 100, None, None),
        (None, 100, None, "hidden by the server"),
        (96, 107, 96, "another token count"),
        (80, 100, 96, "within one block"),
        (0, 100, 96, "less than predicted"),
        (96, 100, 32, "more than predicted"),
    ],
)
def test_a_gap_has_a_name(cached: int | None, prompt: int, predicted: int | None, name: str | None) -> None:
    found = gaps([record(usage=usage(cached, prompt), predicted_cached_tokens=predicted)], block_size=16)
    assert [key.startswith(name) for key in found if name] == ([] if name is None else [True])
    assert not gaps([record(error="gone")], block_size=16)


def counters(queried: float, cached: float) -> dict[str, Any]:
    return {
        "counters_before": CounterReading("f", "tokens", 0, 0),
        "counters_after": CounterReading("f", "tokens", queried, cached),
    }


@pytest.mark.parametrize(
    ("queried", "cached", "name"),
    [
        (100, 96, None),
        (0, 0, None),  # nothing was looked up: caching is off there
        (100, 80, "counters and answer differ"),
        (300, 280, "counters hold more than this request"),
    ],
)
def test_the_counters_are_the_third_witness_of_each_request(queried: float, cached: float, name: str | None) -> None:
    found = disagreements([record(**counters(queried, cached))], block_size=16)
    assert [one.gap.startswith(name) for one in found if name] == ([] if name is None else [True])
    assert len(found) == (name is not None)


@pytest.mark.parametrize(
    ("queried", "cached", "told", "gap"),
    [
        (100, 96, 96, None),
        (100, 80, 80, "within one block: rounding or the last token"),
        (300, 96, None, "hidden by the server"),  # other people's tokens are among them
        (0, 0, None, "hidden by the server"),
    ],
)
def test_where_answers_hide_their_cached_tokens_the_counters_tell_them(
    queried: float, cached: float, told: int | None, gap: str | None
) -> None:
    hidden = record(usage=usage(None), **counters(queried, cached))
    assert cached_tokens(hidden) == told
    assert list(gaps([hidden], block_size=16)) == ([] if gap is None else [gap])


def test_blocks_are_no_tokens() -> None:
    hidden = record(
        usage=usage(None),
        counters_before=CounterReading("f", "blocks", 0, 0),
        counters_after=CounterReading("f", "blocks", 100, 96),
    )
    assert cached_tokens(hidden) is None


def test_a_disagreement_says_who_said_what() -> None:
    leaked = record(arm="off", index=3, usage=usage(16), predicted_cached_tokens=0, **counters(100, 16))
    (found,) = disagreements([leaked, record(error="gone"), record()], block_size=16)
    assert (found.arm, found.index, found.usage, found.metrics, found.predicted) == ("off", 3, 16, 16, 0)
    assert found.gap == "hit although it should miss: the cache was not out of reach"


def test_what_a_failed_request_did_not_leave_is_told_apart() -> None:
    """Only of those that it was to be followed by: the next of its arm and group, and no gain."""
    failed = record(error="HTTP 429", index=1)
    less, more = usage(0), usage(98)
    follows = [failed, record(usage=less), record(usage=less, index=3)]
    elsewhere = [record(usage=less, group=200), record(usage=less, experiment="gradient"), record(usage=more, group=7)]
    seen = gaps([*follows, *elsewhere], block_size=16)
    assert seen == {
        "less than predicted: the request before it failed": 1,
        "less than predicted: evicted, reset, or another replica": 3,
        "within one block: rounding or the last token": 1,
    }
    assert "less than predicted: the request before it failed" not in gaps([failed, record(usage=more)], block_size=16)
