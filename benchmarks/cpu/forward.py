"""Forward passes alone, no server: how long a cold prefill, a hit and a decode step take, plain and ours, interleaved.

    python -m benchmarks.cpu.forward MODEL_FOLDER [--threads 2] [--repeats 5] [--clock cpu] [--json FILE]

Plain is what a straightforward torch model does: unpacked weights, keys and values of all query heads copied out, and
``scaled_dot_product_attention``, one request at a time. ``--clock cpu`` counts one thread's processor time, for a
machine that others use too.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from benchmarks.cpu.procfs import describe_hardware
from torch.nn import functional

from anaphora.checkpoints.config_reader import read_model_config
from anaphora.models.batch import ForwardBatch, SequenceSpan
from anaphora.models.causal_lm import CausalLM
from anaphora.models.kv_cache import PagedKVCache
from anaphora.models.linear import PlainLinear
from anaphora.models.loader import load_model, read_weights
from anaphora.models.weights import SafetensorsSource

BLOCK_SIZE = 16
MAX_TOKENS_A_PASS = 2048
MAX_TOKENS = 4096
CASES = {
    "cold prefill of 1024": (1, 0, 1024),
    "cold prefill of 3072": (1, 0, 3072),
    "hit: 20 new over 1024": (1, 1024, 1044),
    "hit: 20 new over 2048": (1, 2048, 2068),
    "hit: 20 new over 3072": (1, 3072, 3092),
    "decode: 1 over 1024": (1, 1024, 1025),
    "decode: 1 over 3072": (1, 3072, 3073),
    "16 hits: 30 new over a shared 2048": (16, 2048, 2078),
    "16 decodes: 1 over a shared 2048": (16, 2048, 2049),
}
"""Number of requests at once, tokens computed before and shared by all, tokens of each after this."""


class PlainAttention:
    """One request in blocks that lie together; keys and values repeated for each query head, a mask for causality."""

    def __init__(self, num_heads: int, num_kv_heads: int) -> None:
        self._num_heads = num_heads
        self._group = num_heads // num_kv_heads

    def plan(self, batch: ForwardBatch, kv: PagedKVCache) -> tuple[slice, slice, torch.Tensor | None]:
        """Slots of the whole request, slots of the new tokens, and what each query may see."""
        (span,) = batch.spans
        start = span.block_table[0] * kv.block_size
        new = slice(start + span.kv_len - span.query_len, start + span.kv_len)
        if span.query_len in (1, span.kv_len):
            return slice(start, new.stop), new, None
        visible = torch.ones(span.query_len, span.kv_len, dtype=torch.bool).tril(span.kv_len - span.query_len)
        return slice(start, new.stop), new, visible

    def run(self, plan: Any, layer: int, heads: torch.Tensor, kv: PagedKVCache) -> torch.Tensor:
        """See :class:`anaphora.models.attention.base.Attention`."""
        slots, new, visible = plan
        kv.write(layer, new, heads[:, self._num_heads :])
        keys, values = kv.layer(layer)[:, :, slots].repeat_interleave(self._group, dim=1)
        queries = heads[:, : self._num_heads].transpose(0, 1)
        is_causal = visible is None and len(heads) > 1
        mixed = functional.scaled_dot_product_attention(
            queries[None], keys[None], values[None], attn_mask=visible, is_causal=is_causal
        )
        return mixed[0].transpose(0, 1).flatten(1)


def load(folder: Path, kind: str) -> CausalLM:
    """The model in the plain way or in ours."""
    config = read_model_config(folder)
    if kind == "ours":
        return load_model(folder, config)
    weights = read_weights(SafetensorsSource(folder), config, PlainLinear, torch.float32)
    return CausalLM(config, weights, PlainAttention(config.num_heads, config.num_kv_heads), torch.float32)


def one_pass(model: CausalLM, kv: PagedKVCache, token_ids: torch.Tensor, start: int, end: int) -> torch.Tensor:
    """Compute tokens ``[start, end)`` as the engine does, in passes of bounded length; logits of the last."""
    logits = torch.empty(0)
    for first in range(start, end, MAX_TOKENS_A_PASS):
        last = min(first + MAX_TOKENS_A_PASS, end)
        positions = torch.arange(first, last)
        span = SequenceSpan(0, last - first, last, range(-(-last // BLOCK_SIZE)))
        wanted = torch.tensor([last - first - 1] if last == end else [], dtype=torch.int64)
        logits = model.forward(ForwardBatch(token_ids[first:last], positions, positions, (span,), wanted), kv)
    return logits


def together(
    model: CausalLM, kv: PagedKVCache, token_ids: torch.Tensor, num_requests: int, start: int, end: int
) -> torch.Tensor:
    """Tokens ``[start, end)`` of requests with the same first ``start`` tokens, in one pass; logits of their last."""
    num_new, num_shared_blocks = end - start, start // BLOCK_SIZE
    num_own_blocks = -(-end // BLOCK_SIZE) - num_shared_blocks
    tables = torch.arange(num_requests * num_own_blocks).view(num_requests, -1) + MAX_TOKENS // BLOCK_SIZE
    tables = torch.cat([torch.arange(num_shared_blocks).expand(num_requests, -1), tables], dim=1)
    positions = torch.arange(start, end)
    slots = tables[:, positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    spans = [SequenceSpan(index * num_new, num_new, end, table) for index, table in enumerate(tables.tolist())]
    wanted = torch.arange(1, num_requests + 1) * num_new - 1
    new = token_ids[start:end].repeat(num_requests)
    return model.forward(ForwardBatch(new, positions.repeat(num_requests), slots.flatten(), tuple(spans), wanted), kv)


def one_by_one(
    model: CausalLM, kv: PagedKVCache, token_ids: torch.Tensor, num_requests: int, start: int, end: int
) -> torch.Tensor:
    """What :func:`together` computes, in a pass or more a request."""
    return torch.cat([one_pass(model, kv, token_ids, start, end) for _ in range(num_requests)])


def measure(folder: Path, repeats: int, clock: Callable[[], float]) -> list[dict[str, Any]]:
    """Milliseconds of each case, plain and ours in turn; and how far the logits are apart."""
    models = {kind: load(folder, kind) for kind in ("plain", "ours")}
    num_slots = MAX_TOKENS + max(num * (end - start + BLOCK_SIZE) for num, start, end in CASES.values())
    caches = {kind: model.new_kv_cache(-(-num_slots // BLOCK_SIZE), BLOCK_SIZE) for kind, model in models.items()}
    vocab_size = models["ours"].config.vocab_size
    token_ids = torch.randint(vocab_size, (MAX_TOKENS,), generator=torch.Generator().manual_seed(0))
    for kind, model in models.items():
        one_pass(model, caches[kind], token_ids, 0, MAX_TOKENS)  # warm-up; all that hits and decodes will look back on
    rows = []
    for case, (num_requests, start, end) in CASES.items():
        samples: dict[str, list[float]] = {kind: [] for kind in models}
        logits = {}
        for _ in range(repeats if start == 0 or num_requests > 1 else 4 * repeats):
            for kind, model in models.items():
                compute = one_by_one if kind == "plain" or num_requests == 1 else together
                before = clock()
                logits[kind] = compute(model, caches[kind], token_ids, num_requests, start, end)
                samples[kind].append(1000 * (clock() - before))
        apart = float((logits["plain"] - logits["ours"]).abs().max())
        rows.append({"case": case, "samples_ms": samples, "logits_apart": apart})
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    """Median (least) milliseconds a case, as Markdown."""
    lines = ["| forward pass | plain ms | ours ms | ours / plain |", "|---|---|---|---|"]
    for row in rows:
        medians = {kind: statistics.median(samples) for kind, samples in row["samples_ms"].items()}
        cells = [f"{medians[kind]:.1f} ({min(row['samples_ms'][kind]):.1f})" for kind in ("plain", "ours")]
        lines.append(f"| {row['case']} | {cells[0]} | {cells[1]} | {medians['ours'] / medians['plain']:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, print, and write the raw samples if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1 if options.clock == "cpu" else options.threads)
    rows = measure(options.folder, options.repeats, time.perf_counter if options.clock == "wall" else time.thread_time)
    circumstances = describe_hardware() | {
        "torch": torch.__version__,
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "clock": options.clock,
    }
    print(", ".join(f"{key} {value}" for key, value in circumstances.items() if key != "vector_instructions"))
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps({"circumstances": circumstances, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
