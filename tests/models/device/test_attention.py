"""The plain attention against its definition, where blocks are shared and tiles end between the heads of a token."""

import pytest
import torch

from anaphora.models.attention.prefixes import SharingCost
from anaphora.models.batch import SequenceSpan
from anaphora.models.device.attention import PLAIN_TILES, PlainAttention
from anaphora.models.device.batch import DeviceTasks

GROUP, NUM_KV_HEADS, DIM, BLOCK_SIZE = 7, 2, 8, 16
EAGER = SharingCost(per_run=0, per_query=0, max_query_len=8)


@pytest.mark.parametrize("num_requests", [2, 10, 12])
def test_heads_of_one_token_in_two_tiles(num_requests: int) -> None:
    torch.manual_seed(num_requests)
    head = [3, 1, 4]
    spans = [SequenceSpan(i, 1, 3 * BLOCK_SIZE + 1 + i, [*head, 5 + i]) for i in range(num_requests)]
    assert GROUP * num_requests < PLAIN_TILES.rows or GROUP * num_requests % PLAIN_TILES.rows
    cache = torch.randn(2, NUM_KV_HEADS, (5 + num_requests) * BLOCK_SIZE, DIM)
    queries = torch.randn(num_requests, GROUP * NUM_KV_HEADS, DIM)
    attention = PlainAttention(GROUP * NUM_KV_HEADS, NUM_KV_HEADS, BLOCK_SIZE, EAGER)
    plan = attention.plan_spans(spans)
    assert len(plan.tokens) == num_requests, "blocks are shared"
    work, tokens, part_start = (torch.from_numpy(array) for array in (plan.work, plan.tokens, plan.part_start))
    positions = torch.tensor([span.kv_len - 1 for span in spans], dtype=torch.int32)
    num_tasks = torch.tensor([plan.num_tasks])
    tasks = DeviceTasks(plan.config, num_tasks, work, tokens, positions, part_start, workspace=None)
    out = attention.run(tasks, queries, cache)
    for row, span in enumerate(spans):
        slots = [span.block_table[t // BLOCK_SIZE] * BLOCK_SIZE + t % BLOCK_SIZE for t in range(span.kv_len)]
        keys, values = cache[:, :, slots].repeat_interleave(GROUP, dim=1)
        scores = torch.einsum("hd,hkd->hk", queries[row], keys) * DIM**-0.5
        torch.testing.assert_close(out[row], torch.einsum("hk,hkd->hd", scores.softmax(-1), values))
