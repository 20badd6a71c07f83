"""The device's pass against the CPU's, by the plain operators: the same mathematics in the same order of layers."""

import random

import numpy as np
import torch

from anaphora.engine.gpu.flat_batch import flatten
from anaphora.engine.gpu.launcher import compute
from anaphora.engine.input_batch import Chunk, forward_batch
from anaphora.models.device.loader import load_device_model
from anaphora.types import RequestId
from tests.models.conftest import Pair

CPU = torch.device("cpu")


def test_same_logits_as_on_cpu(pair: Pair) -> None:
    ours = pair.ours
    model = load_device_model(
        pair.folder, ours.config, dtype=torch.float32, device=CPU, block_size=4, max_logits_rows=8
    )
    rng = random.Random(0)
    steps = [
        [("a", 0, 13), ("b", 0, 6)],
        [("a", 13, 14), ("b", 6, 11), ("c", 0, 2)],
        [("a", 14, 15), ("b", 11, 12), ("c", 2, 3)],
    ]
    texts = {name: [rng.randrange(ours.config.vocab_size) for _ in range(20)] for name in "abc"}
    tables = {"a": (5, 1, 9, 3), "b": (0, 2, 7), "c": (8,)}
    kv, other = ours.new_kv_cache(10, 4), model.new_kv_cache(10, 4)
    sampled = torch.zeros(8, dtype=torch.int32)
    for step in steps:
        chunks = [
            Chunk(RequestId(n), texts[n][start:end], start, tables[n], range(end - 1, end), samples=True)
            for n, start, end in step
        ]
        expected = ours.forward(forward_batch(chunks, 4), kv)
        flat = flatten(chunks, 4)
        with torch.inference_mode():
            logits = compute(model, other, flat, model.attention.plan_spans(flat.spans), sampled)
        torch.testing.assert_close(logits, expected, rtol=2e-4, atol=2e-4)


def test_tokens_that_the_host_does_not_know_yet(llama: Pair) -> None:
    model = load_device_model(
        llama.folder, llama.ours.config, dtype=torch.float32, device=CPU, block_size=4, max_logits_rows=8
    )
    kv = model.new_kv_cache(2, 4)
    sampled = torch.tensor([11, 42, 7], dtype=torch.int32)
    results = []
    for token_id in (42, -2):  # the second is what row 1 has sampled
        chunk = Chunk(RequestId("a"), (token_id,), 0, (1,), range(1), samples=True)
        flat = flatten([chunk], 4)
        assert flat.token_ids.dtype == np.int32
        with torch.inference_mode():
            results.append(compute(model, kv, flat, model.attention.plan_spans(flat.spans), sampled))
    assert torch.equal(*results)


def test_the_first_layers_alone(llama: Pair) -> None:
    model = load_device_model(
        llama.folder, llama.ours.config, dtype=torch.float32, device=CPU, block_size=4, max_logits_rows=8
    )
    assert model.first_layers(1).new_kv_cache(3, 4).layer(0).shape == model.new_kv_cache(3, 4).layer(0).shape
    flat = flatten([Chunk(RequestId("a"), (5, 6), 0, (1,), range(1, 2), samples=True)], 4)
    results = []
    for part in (model, model.first_layers(model.config.num_layers), model.first_layers(1)):
        plan = part.attention.plan_spans(flat.spans)
        with torch.inference_mode():
            results.append(compute(part, part.new_kv_cache(2, 4), flat, plan, torch.zeros(8, dtype=torch.int32)))
    assert torch.equal(results[0], results[1])
    assert not torch.allclose(results[0], results[2])
