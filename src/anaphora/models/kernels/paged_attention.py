"""Attention over the paged cache, as a list of tasks: some queries meet one stretch of keys. Two kernels.

A *task* is a tile of queries and a range of one block table's tokens: a request's own keys, a split of them, or blocks
that many requests share and that are read once for all of them. The first kernel writes what each query got from each
of its tasks (a *part*: the mean of the values and the log-sum-exp of the scores), the second joins a query's parts in
the order of its tasks. A query with a single task needs no joining.
"""

import triton
import triton.language as tl

from anaphora.models.kernels.early import wait

LOG2_E = 1.4426950408889634


@triton.jit
def _meet(
    query, largest, total, mixed, keys, values, block, start, end, position, scale,
    DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK_SIZE: tl.constexpr, COLUMNS: tl.constexpr, MASKED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """The queries of a tile meet ``COLUMNS`` keys from ``start`` on: online softmax in base 2, scores unscaled."""
    key = start + tl.arange(0, COLUMNS)
    dim = tl.arange(0, PADDED)
    if MASKED:
        readable = (key < end)[:, None] & (dim < DIM)[None, :]
    else:
        readable = (key >= 0)[:, None] & (dim < DIM)[None, :]
    at = (block * BLOCK_SIZE + key % BLOCK_SIZE)[:, None] * DIM + dim[None, :]
    if MASKED or PADDED != DIM:
        key_tile = tl.load(keys + at, mask=readable, other=0.0)
    else:
        key_tile = tl.load(keys + at)
    score = tl.dot(query, tl.trans(key_tile), input_precision=PRECISION)
    if MASKED:
        score = tl.where((key[None, :] <= position[:, None]) & (key < end)[None, :], score, float("-inf"))
    new_largest = tl.maximum(largest, tl.max(score, 1))
    finite = tl.where(new_largest == float("-inf"), 0.0, new_largest) if MASKED else new_largest
    weight = tl.exp2(score * scale - (finite * scale)[:, None])
    decay = tl.exp2((largest - finite) * scale)
    if MASKED or PADDED != DIM:
        value_tile = tl.load(values + at, mask=readable, other=0.0)
    else:
        value_tile = tl.load(values + at)
    mixed = tl.dot(weight.to(value_tile.dtype), value_tile, mixed * decay[:, None], input_precision=PRECISION)
    return new_largest, total * decay + tl.sum(weight, 1), mixed


@triton.jit
def _attend_task(
    task, kv_head, queries, cache, work, task_tokens, part_start, parts, part_lse, out, scale, num_slots,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr, IS_SHORT: tl.constexpr,
):  # fmt: skip
    """A task and a KV head. A tile's rows: the ``GROUP`` query heads of each token, as many rows as the task has."""
    NUM_HEADS: tl.constexpr = NUM_KV_HEADS * GROUP
    dim = tl.arange(0, PADDED)
    row = tl.arange(0, ROWS)
    first_row, num_rows = tl.load(task), tl.load(task + 1)
    start, end = tl.load(task + 2), tl.load(task + 3)
    table = work + tl.load(task + 4)  # where block 0 would be: only entries from start on are read
    ordinal, seen_by_first = tl.load(task + 5), tl.load(task + 6)
    active = row < num_rows
    is_listed = first_row + 0 * row < 0  # tokens of several requests; else neighbouring ones of one
    first_row = tl.where(first_row < 0, -1 - first_row, first_row)
    place = (first_row + row) // GROUP
    listed = tl.load(task_tokens + place, mask=active & is_listed, other=0)
    token = tl.where(is_listed, listed, place)
    position = seen_by_first - 1 + place - first_row // GROUP  # of queries that see all keys of the task, any that does
    first_part = tl.load(part_start + token, mask=active, other=0)
    next_part = tl.load(part_start + token + 1, mask=active, other=0)
    head = kv_head * GROUP + (first_row + row) % GROUP
    at = (token.to(tl.int64) * NUM_HEADS + head)[:, None] * DIM + dim[None, :]
    used = active[:, None] & (dim < DIM)[None, :]
    query = tl.load(queries + at, mask=used, other=0.0)
    keys = cache + kv_head.to(tl.int64) * num_slots * DIM
    values = keys + (num_slots * DIM).to(tl.int64) * NUM_KV_HEADS
    largest = tl.full([ROWS], float("-inf"), tl.float32)
    total = tl.zeros([ROWS], tl.float32)
    mixed = tl.zeros([ROWS, PADDED], tl.float32)
    # before the middle no key is hidden from any query; with few keys one loop is sooner at its end than two
    middle = start + tl.maximum(tl.minimum(end, seen_by_first) - start, 0) // COLUMNS * COLUMNS
    if IS_SHORT:
        middle = start
    key = tl.arange(0, COLUMNS)
    # blocks are read one tile ahead: so the compiler keeps several tiles of keys and values in flight
    block = tl.load(table + (start + key) // BLOCK_SIZE, mask=start + key < end, other=0)
    for column in range(start, middle, COLUMNS):
        ahead = column + COLUMNS + key
        next_block = tl.load(table + ahead // BLOCK_SIZE, mask=ahead < end, other=0)
        largest, total, mixed = _meet(
            query, largest, total, mixed, keys, values, block, column, end, position, scale,
            DIM, PADDED, BLOCK_SIZE, COLUMNS, False, PRECISION,
        )  # fmt: skip
        block = next_block
    for column in range(middle, end, COLUMNS):
        if ROWS > 16 or IS_SHORT:
            ahead = column + COLUMNS + key
            next_block = tl.load(table + ahead // BLOCK_SIZE, mask=ahead < end, other=0)
        else:  # the registers are taken
            block = tl.load(table + (column + key) // BLOCK_SIZE, mask=column + key < end, other=0)
            next_block = block
        largest, total, mixed = _meet(
            query, largest, total, mixed, keys, values, block, column, end, position, scale,
            DIM, PADDED, BLOCK_SIZE, COLUMNS, True, PRECISION,
        )  # fmt: skip
        block = next_block
    nothing = total == 0.0
    result = mixed / tl.where(nothing, 1.0, total)[:, None]
    is_only = (next_part == first_part)[:, None]
    tl.store(out + at, result.to(out.dtype.element_ty), mask=used & is_only)
    part = (first_part + ordinal).to(tl.int64) * NUM_HEADS + head
    tl.store(parts + part[:, None] * DIM + dim[None, :], result, mask=used & (is_only == 0))
    lse = tl.where(nothing, float("-inf"), largest * scale + tl.log2(tl.where(nothing, 1.0, total)))
    tl.store(part_lse + part, lse, mask=active & (next_part != first_part))


@triton.jit
def attend_kernel(
    queries, cache, work, num_tasks, task_tokens, part_start, parts, part_lse, out,
    scale, num_slots,
    NUM_KV_HEADS: tl.constexpr, GROUP: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, BLOCK_SIZE: tl.constexpr,
    ROWS: tl.constexpr, FEW_ROWS: tl.constexpr, COLUMNS: tl.constexpr, PRECISION: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """Programs walk over the pairs of a task and a KV head. Tasks of up to ``FEW_ROWS`` rows (0: none) have tiles of so
    many: they are sooner there."""
    wait(EARLY)
    for item in range(tl.program_id(0), tl.load(num_tasks) * NUM_KV_HEADS, tl.num_programs(0)):
        task = work + (item // NUM_KV_HEADS) * 8  # TASK_WORDS of the plan
        kv_head = item % NUM_KV_HEADS
        if FEW_ROWS == 0:
            _attend_task(
                task, kv_head, queries, cache, work, task_tokens, part_start, parts, part_lse, out, scale, num_slots,
                NUM_KV_HEADS, GROUP, DIM, PADDED, BLOCK_SIZE, ROWS, COLUMNS, PRECISION, False,
            )  # fmt: skip
        elif tl.load(task + 1) <= FEW_ROWS:
            _attend_task(
                task, kv_head, queries, cache, work, task_tokens, part_start, parts, part_lse, out, scale, num_slots,
                NUM_KV_HEADS, GROUP, DIM, PADDED, BLOCK_SIZE, FEW_ROWS, COLUMNS, PRECISION, True,
            )  # fmt: skip
        else:
            _attend_task(
                task, kv_head, queries, cache, work, task_tokens, part_start, parts, part_lse, out, scale, num_slots,
                NUM_KV_HEADS, GROUP, DIM, PADDED, BLOCK_SIZE, ROWS, COLUMNS, PRECISION, False,
            )  # fmt: skip


@triton.jit
def join_kernel(
    part_start, parts, part_lse, out,
    NUM_HEADS: tl.constexpr, DIM: tl.constexpr, PADDED: tl.constexpr, STEP: tl.constexpr, EARLY: tl.constexpr,
):  # fmt: skip
    """One head of one token. Parts are weighed by their log-sum-exp and added ``STEP`` at a time, in order."""
    token = tl.program_id(0)
    head = tl.program_id(1)
    first = tl.load(part_start + token)
    num_parts = tl.load(part_start + token + 1) - first
    wait(EARLY)
    if num_parts > 0:
        largest = -float("inf")
        total = 0.0
        dim = tl.arange(0, PADDED)
        mixed = tl.zeros([PADDED], tl.float32)
        for step in range(0, num_parts, STEP):
            index = step + tl.arange(0, STEP)
            row = (first + index).to(tl.int64) * NUM_HEADS + head
            lse = tl.load(part_lse + row, mask=index < num_parts, other=float("-inf"))
            readable = (index < num_parts)[:, None] & (dim < DIM)[None, :]
            part = tl.load(parts + row[:, None] * DIM + dim[None, :], mask=readable, other=0.0)
            new_largest = tl.maximum(largest, tl.max(lse, 0))  # finite: every query sees its first key
            weight = tl.exp2(lse - new_largest)
            decay = tl.exp2(largest - new_largest)
            mixed = mixed * decay + tl.sum(part * weight[:, None], 0)
            total = total * decay + tl.sum(weight, 0)
            largest = new_largest
        at = (token.to(tl.int64) * NUM_HEADS + head) * DIM + dim
        tl.store(out + at, (mixed / total).to(out.dtype.element_ty), mask=dim < DIM)
