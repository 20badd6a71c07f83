"""The soak's requests end as they should on a real server, and its growth is that behind the warm-up."""

import asyncio
from pathlib import Path
from typing import Any

from benchmarks.soak.load import KINDS, Load, Sizes
from benchmarks.soak.memory import growth
from tests.models_for_tests import tiny_checkpoint
from tests.server.live import serving


def test_each_kind_of_request_ends_as_it_should(tmp_path: Path) -> None:
    with serving(tiny_checkpoint(tmp_path / "model")) as server:
        load = Load(server.url, "demo-model", Sizes(long_prompt=200, output=4), seed=0)
        ended = asyncio.run(load.burst(60))
    assert sum(ended.values()) == 60
    assert {name.partition(":")[0] for name in ended} == set(KINDS)
    answered = {"short:200", "long:200", "stream:200", "text:200", "leave:left"}
    assert set(ended) <= answered | {"vanish:left", "vanish:200", "wrong:400", "wrong:404"}


def test_growth_is_counted_from_the_end_of_the_warm_up() -> None:
    names = (
        "rss_mib",
        "pss_mib",
        "heap_used_mib",
        "heap_kept_mib",
        "objects",
        "fds",
        "threads",
        "tasks",
        "used_blocks",
    )
    samples: list[dict[str, Any]] = [
        {"requests": 10 * i, **dict.fromkeys(names, value)} for i, value in enumerate((1, 50, 60, 61, 60))
    ]
    assert growth(samples) == {"requests": 30, **dict.fromkeys(names, 10)}
