"""Limits that are named."""

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.load.slo import keeps, parse_limits


def test_limits_are_read_by_name() -> None:
    assert parse_limits("ttft_ms=200, tpot_ms=30.5") == {"ttft_ms": 200.0, "tpot_ms": 30.5}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ttft=200", "no limit 'ttft'"),
        ("", "no limit ''"),
        ("ttft_ms", "above 0, got ''"),
        ("ttft_ms=fast", "above 0, got 'fast'"),
        ("ttft_ms=0", "above 0, got '0'"),
        ("ttft_ms=-1", "above 0"),
        ("ttft_ms=nan", "above 0"),
        ("ttft_ms=inf", "above 0"),
        ("ttft_ms=1,ttft_ms=2", "says ttft_ms twice"),
    ],
)
def test_what_is_no_limit_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_limits(text)


@pytest.mark.parametrize(
    ("times", "kept"),
    [
        ({"ttft_ms": 200.0, "tpot_ms": 1.0, "e2e_ms": None}, True),
        ({"ttft_ms": 200.1, "tpot_ms": 1.0, "e2e_ms": 1.0}, False),
        ({"ttft_ms": None, "tpot_ms": 1.0, "e2e_ms": 1.0}, False),
        ({"ttft_ms": 1.0, "tpot_ms": 31.0, "e2e_ms": 1.0}, False),
    ],
)
def test_limits_are_kept_only_if_all_are_known_to_be(times: dict[str, float | None], kept: bool) -> None:
    assert keeps({"ttft_ms": 200.0, "tpot_ms": 30.0}, times) is kept
