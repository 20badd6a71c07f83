"""How a step becomes tasks: full tiles over shared blocks, and which program does what when."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from anaphora.models.attention import tasks
from anaphora.models.attention.sharing import SharedRun
from anaphora.models.attention.tasks import TASK_WORDS, TaskBuilder, TaskPlan
from anaphora.models.attention.tiles import HOPPER
from anaphora.models.batch import SequenceSpan

GROUP, BLOCK_SIZE, SHARED_BLOCKS = 7, 16, 4


def shared_by(num_requests: int) -> TaskPlan:
    """A token of each request: some blocks that all share, and one of its own."""
    head = range(SHARED_BLOCKS)
    kv_len = (SHARED_BLOCKS + 1) * BLOCK_SIZE
    spans = [SequenceSpan(index, 1, kv_len, [*head, 100 + index]) for index in range(num_requests)]
    builder = TaskBuilder(spans, BLOCK_SIZE, HOPPER["extend"], group=GROUP, num_tokens=num_requests)
    builder.add([SharedRun(tuple(range(num_requests)), 0, SHARED_BLOCKS)])
    return builder.build(num_kv_heads=4, num_programs=264)


@given(num_requests=st.integers(2, 100))
def test_tiles_over_shared_blocks_are_full_and_hold_every_head_of_every_token_once(num_requests: int) -> None:
    plan = shared_by(num_requests)
    words = plan.work[: plan.num_tasks * TASK_WORDS].reshape(-1, TASK_WORDS)
    first, num_rows = words[words[:, 0] < 0][:, :2].T
    listed = [row for begin, count in zip(-1 - first, num_rows, strict=True) for row in range(begin, begin + count)]
    assert sorted(listed) == list(range(GROUP * num_requests))
    assert len(num_rows) == -(-GROUP * num_requests // HOPPER["extend"].rows)
    assert plan.tokens.tolist() == list(range(num_requests))
    own = words[words[:, 0] >= 0]
    assert sorted(own[:, 0]) == [GROUP * index for index in range(num_requests)]
    assert set(own[:, 1]) == {GROUP}
    assert plan.part_start.tolist() == [2 * index for index in range(num_requests + 1)]


@given(num_tasks=st.integers(0, 300), num_places=st.integers(1, 70))
def test_every_second_program_does_its_tasks_in_the_reverse_order(num_tasks: int, num_places: int) -> None:
    order = tasks._one_long_one_short(num_tasks, num_places)
    for place in range(num_places):
        mine = np.arange(place, num_tasks, num_places)
        assert order[place::num_places].tolist() == (mine if place < num_places // 2 else mine[::-1]).tolist()
