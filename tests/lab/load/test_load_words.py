"""What a load's report says in its first sentences."""

from typing import Any

from anaphora.lab.load.report.words import answer


def row(hit: float | None) -> dict[str, Any]:
    def cell(ttft_ms: float) -> dict[str, Any]:
        return {
            "ttft_ms": {"p50": {"value": ttft_ms}},
            "output_tokens_per_s": 5.0,
            "hit_rate_percent": {"usage": hit},
        }

    return {
        "level": 0.25,
        "off": cell(800.0),
        "on": cell(200.0),
        "ttft_p50_reduction_percent": 75.0,
        "output_tokens_per_s_gain_percent": 0.0,
    }


def test_a_difference_without_a_hit_is_not_the_caches() -> None:
    said = [answer({"load": {"loop": "replay", "rows": [row(hit)]}}) for hit in (0.0, 40.0, None)]
    first = "At speed ×0.25, prefix caching changed the median time to first token from 800.0 to 200.0 ms (−75.0%)."
    assert said == [
        f"{first} Yet no prompt token came from the cache there: the difference is not the cache's.",
        first,
        first,
    ]
