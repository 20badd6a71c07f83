"""The model equals transformers, however a prompt is cut and wherever its blocks lie. Unwritten memory is poisoned."""

import random

import pytest
import torch

from anaphora.models.causal_lm import CausalLM
from anaphora.models.kv_cache import PagedKVCache
from tests.models.batches import BLOCK_SIZE, Piece, forward_batch, poison
from tests.models.conftest import Pair

TOLERANCE = 1e-4
NUM_BLOCKS = 64
TOGETHER = list(range(5, 30))
SCATTERED = random.Random(7).sample(range(NUM_BLOCKS), 25)
TWO_RUNS = [*range(40, 44), *range(10, 31)]


def prompt(length: int, seed: int = 0) -> list[int]:
    return random.Random(seed).choices(range(3, 400), k=length)


def poisoned_cache(model: CausalLM) -> PagedKVCache:
    kv = model.new_kv_cache(NUM_BLOCKS, BLOCK_SIZE)
    for layer in range(model.config.num_layers):
        poison(kv.layer(layer))
    return kv


def assert_close(logits: torch.Tensor, expected: torch.Tensor) -> None:
    assert logits.dtype == torch.float32
    torch.testing.assert_close(logits, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("table", [TOGETHER, SCATTERED, TWO_RUNS], ids=["together", "scattered", "two runs"])
def test_whole_prompt(pair: Pair, table: list[int]) -> None:
    tokens = prompt(61)
    logits = pair.ours.forward(forward_batch([Piece(tokens, 0, 61, table)]), poisoned_cache(pair.ours))
    assert_close(logits, pair.oracle_logits(tokens))


def test_a_prompt_cut_anywhere(pair: Pair) -> None:
    tokens = prompt(23)
    expected = pair.oracle_logits(tokens)
    for cut in range(1, 23):
        kv = poisoned_cache(pair.ours)
        head = pair.ours.forward(forward_batch([Piece(tokens, 0, cut, SCATTERED)]), kv)
        tail = pair.ours.forward(forward_batch([Piece(tokens, cut, 23, SCATTERED)]), kv)
        assert_close(torch.cat([head, tail]), expected)


@pytest.mark.parametrize("step", [1, 3, 7])
def test_a_prompt_in_many_chunks(pair: Pair, step: int) -> None:
    tokens, kv = prompt(40), poisoned_cache(pair.ours)
    pieces = [Piece(tokens, start, min(start + step, 40), TWO_RUNS) for start in range(0, 40, step)]
    logits = torch.cat([pair.ours.forward(forward_batch([piece]), kv) for piece in pieces])
    assert_close(logits, pair.oracle_logits(tokens))


def test_greedy_decoding_of_several_requests_at_once(pair: Pair) -> None:
    """Prefill of one request and decode of others share passes; each gets the oracle's tokens."""
    sequences = [prompt(9, seed=1), prompt(16, seed=2), prompt(5, seed=3)]
    free = list(range(NUM_BLOCKS))
    random.Random(5).shuffle(free)
    tables = [[free.pop() for _ in range(8)] for _ in sequences]
    num_prompt = [len(tokens) for tokens in sequences]
    computed = [0, 0, 0]
    kv = poisoned_cache(pair.ours)
    for step in range(12):
        active = [index for index in range(3) if index <= step]  # each joins one step later
        pieces = [Piece(sequences[i], computed[i], len(sequences[i]), tables[i]) for i in active]
        lengths = [piece.end - piece.start for piece in pieces]
        rows = [sum(lengths[: index + 1]) - 1 for index in range(len(lengths))]
        logits = pair.ours.forward(forward_batch(pieces, rows), kv)
        for index, token in zip(active, logits.argmax(-1).tolist(), strict=True):
            computed[index] = len(sequences[index])
            sequences[index].append(token)
    for tokens, length in zip(sequences, num_prompt, strict=True):
        expected = pair.oracle_logits(tokens[:-1])[length - 1 :].argmax(-1).tolist()
        assert tokens[length:] == expected


def test_a_request_attends_to_blocks_that_another_one_computes_in_the_same_pass(llama: Pair) -> None:
    shared, first, second = prompt(3 * BLOCK_SIZE), prompt(5, seed=1), prompt(7, seed=2)
    batch = forward_batch(
        [
            # listed before the owner: writes of a layer come before all its reads
            Piece(shared + second, len(shared), len(shared) + 7, [20, 21, 22, 8, 9]),
            Piece(shared + first, 0, len(shared) + 5, [20, 21, 22, 3, 4]),
        ]
    )
    logits = llama.ours.forward(batch, poisoned_cache(llama.ours))
    assert_close(logits[:7], llama.oracle_logits(shared + second)[len(shared) :])
    assert_close(logits[7:], llama.oracle_logits(shared + first))


def test_only_wanted_rows_get_logits(llama: Pair) -> None:
    tokens = prompt(20)
    piece = [Piece(tokens, 0, 20, TOGETHER)]
    everything = llama.ours.forward(forward_batch(piece), poisoned_cache(llama.ours))
    some = llama.ours.forward(forward_batch(piece, rows=[3, 19]), poisoned_cache(llama.ours))
    torch.testing.assert_close(some, everything[[3, 19]], rtol=0, atol=1e-5)
    assert llama.ours.forward(forward_batch(piece, rows=[]), poisoned_cache(llama.ours)).shape == (0, 400)


def test_a_prompt_of_several_tiles(llama: Pair) -> None:
    tokens = prompt(300)
    kv = llama.ours.new_kv_cache(100, BLOCK_SIZE)
    poison(kv.layer(0))
    logits = llama.ours.forward(forward_batch([Piece(tokens, 0, 300, range(7, 82))]), kv)
    assert_close(logits, llama.oracle_logits(tokens))


def test_the_kv_cache_is_not_touched_until_it_is_used(llama: Pair) -> None:
    kv = llama.ours.new_kv_cache(1 << 20, 16)  # would be 24 GiB if it were cleared
    config = llama.ours.config
    assert kv.num_bytes == (1 << 20) * 16 * config.kv_bytes_per_token()
    assert kv.layer(2).shape == (2, config.num_kv_heads, 16 << 20, config.head_dim)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_stays_near(pair: Pair, dtype: torch.dtype) -> None:
    from anaphora.models.loader import load_model

    model = load_model(pair.folder, pair.ours.config, dtype=dtype)
    tokens = prompt(30)
    logits = model.forward(forward_batch([Piece(tokens, 0, 30, TWO_RUNS)]), poisoned_cache(model))
    expected = pair.oracle_logits(tokens)
    assert logits.dtype == torch.float32
    assert float((logits - expected).abs().mean()) < 0.05 * float(expected.std())
