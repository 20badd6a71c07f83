"""What a load's report says in its first sentences."""

from typing import Any

import pytest

from anaphora.lab.load.report.words import answer
from anaphora.lab.report.languages import CHINESE

MISSED = (
    "At speed ×0.25, nothing came from the cache: the medians of time to first token, 800.0 ms off and 200.0 ms on, "
    "do not differ by caching."
)
CHANGED = "At speed ×0.25, prefix caching changed the median time to first token from 800.0 to 200.0 ms (−75.0%)."
LOOK = "`anaphora doctor` looks for the cause."


def row(hit: float | None, counted: float | None = None) -> dict[str, Any]:
    def cell(ttft_ms: float) -> dict[str, Any]:
        return {
            "ttft_ms": {"p50": {"value": ttft_ms}},
            "output_tokens_per_s": 5.0,
            "hit_rate_percent": {"usage": hit, "metrics": counted},
        }

    return {
        "level": 0.25,
        "off": cell(800.0),
        "on": cell(200.0),
        "ttft_p50_reduction_percent": 75.0,
        "output_tokens_per_s_gain_percent": 0.0,
    }


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([row(0.0)], f"{MISSED} {LOOK}"),
        ([row(None, 0.0)], f"{MISSED} {LOOK}"),
        ([row(0.0), row(0.0)], f"{MISSED} {MISSED} {LOOK}"),
        ([row(0.0), row(40.0)], f"{MISSED} {CHANGED}"),
        ([row(40.0)], CHANGED),
        ([row(None)], CHANGED),
    ],
)
def test_where_nothing_came_from_the_cache_no_change_by_it_is_told(rows: list[dict[str, Any]], said: str) -> None:
    assert answer({"load": {"loop": "replay", "rows": rows}}) == said


@pytest.mark.parametrize(
    ("loop", "where"), [("closed", "并发 0.25"), ("open", "每秒 0.25 个请求"), ("replay", "速度 ×0.25")]
)
def test_the_same_in_chinese(loop: str, where: str) -> None:
    said = CHINESE.say(answer({"load": {"loop": loop, "rows": [row(0.0)]}}))
    assert said.startswith(
        f"{where} 时,没有任何内容来自缓存:首 token 时间的中位数(关 800.0 ms,开 200.0 ms)之差与缓存无关"
    )
    assert "`anaphora doctor` 可以找出原因" in said
