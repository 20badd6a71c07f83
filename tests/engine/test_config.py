from dataclasses import replace
from typing import Any

import pytest

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.engine.config import EngineConfig
from anaphora.engine.plan import KVCapacity
from anaphora.errors import ConfigError

MODEL = ModelConfig(
    architecture="LlamaForCausalLM",
    vocab_size=100,
    hidden_size=64,
    intermediate_size=96,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    head_dim=16,
    max_position_embeddings=1000,
    rms_norm_eps=1e-5,
    rope_theta=1e4,
    rope_scaling=None,
    tie_word_embeddings=True,
    qkv_bias=False,
    output_bias=False,
    mlp_bias=False,
    qk_norm=False,
    dtype="bfloat16",
    bos_token_id=None,
    eos_token_ids=(2,),
)
"""512 bytes of keys and values a token in float32, 8192 a block of 16."""


def test_memory_becomes_blocks() -> None:
    plan = EngineConfig(kv_cache_memory_bytes=100 * 8192 + 8191).resolve(MODEL)
    assert plan.dtype == "float32"
    assert plan.kv_capacity == KVCapacity(num_blocks=100, num_tokens=1600, num_bytes=819200)
    assert str(plan.kv_capacity) == "100 blocks, 1600 tokens, 1 MiB"
    assert (plan.cache.num_blocks, plan.cache.block_size) == (100, 16)
    assert plan.max_model_len == plan.scheduler.max_model_len == 1000
    assert plan.scheduler.max_num_batched_tokens == 2048


def test_one_gibibyte_by_default() -> None:
    assert EngineConfig().resolve(MODEL).kv_capacity.num_bytes == 2**30


def test_half_precision_holds_twice_as_much() -> None:
    assert EngineConfig(dtype="bfloat16", kv_cache_memory_bytes=8192).resolve(MODEL).kv_capacity.num_tokens == 32


def test_blocks_can_be_given() -> None:
    plan = EngineConfig(num_gpu_blocks_override=7, block_size=32).resolve(MODEL)
    assert plan.kv_capacity == KVCapacity(7, 224, 7 * 16384)


def test_a_length_that_nobody_asked_for_is_what_fits() -> None:
    assert EngineConfig(num_gpu_blocks_override=3).resolve(MODEL).max_model_len == 48
    assert EngineConfig(num_gpu_blocks_override=3, max_model_len=40).resolve(MODEL).max_model_len == 40


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_model_len": 1001}, "max_model_len is 1001, but the model's context is 1000 tokens"),
        (
            {"max_model_len": 49, "num_gpu_blocks_override": 3},
            "max_model_len is 49, but the KV cache holds 48 tokens: lower it to that, or raise num_gpu_blocks_override "
            "to 4",
        ),
        (
            {"max_model_len": 49, "kv_cache_memory_bytes": 8192 * 3},
            "max_model_len is 49, but the KV cache holds 48 tokens: lower it to that, or raise kv_cache_memory_bytes "
            "to 32768",
        ),
        ({"kv_cache_memory_bytes": 8191}, "kv_cache_memory_bytes is 8191, but one block of 16 tokens takes 8192"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 999},
            r"max_model_len \(1000\) tokens must fit one step, but max_num_batched_tokens is 999",
        ),
        ({"eviction_policy": "oracle"}, "eviction_policy 'oracle' is not known"),
        ({"max_pinned_share": 1.5}, "max_pinned_share must be from 0 to 1, got 1.5"),
    ],
)
def test_what_does_not_fit_the_model_is_refused_with_both_numbers(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**options).resolve(MODEL)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"block_size": 0}, "block_size must be at least 1, got 0"),
        ({"num_threads": -1}, "num_threads must be at least 1"),
        ({"dtype": "int8"}, "dtype must be auto, float32, bfloat16, float16, got 'int8'"),
        ({"device": "tpu"}, "device must be auto, cpu, cuda, got 'tpu'"),
        ({"gpu_memory_utilization": 1.1}, "gpu_memory_utilization must be above 0 and at most 1, got 1.1"),
    ],
)
def test_values_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        EngineConfig(**options)


def test_without_chunked_prefill_a_step_holds_the_longest_prompt() -> None:
    plan = EngineConfig(enable_chunked_prefill=False).resolve(replace(MODEL, max_position_embeddings=5000))
    assert plan.scheduler.max_num_batched_tokens == 5000
    plan = EngineConfig(enable_chunked_prefill=False, max_num_batched_tokens=4000).resolve(MODEL)
    assert plan.scheduler.max_num_batched_tokens == 4000


def test_settings_reach_cache_and_scheduler() -> None:
    plan = EngineConfig(enable_prefix_caching=False, max_num_seqs=3, max_num_batched_tokens=17).resolve(MODEL)
    assert not plan.cache.enable_prefix_caching
    assert (plan.scheduler.max_num_seqs, plan.scheduler.max_num_batched_tokens) == (3, 17)
