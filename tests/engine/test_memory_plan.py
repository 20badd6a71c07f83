"""Memory by arithmetic: Qwen2.5-7B's published sizes, and what is left of a GPU."""

import math
from dataclasses import replace

import pytest

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.engine.config import EngineConfig
from anaphora.engine.gpu.buckets import TOKEN_BUCKETS
from anaphora.engine.gpu.captured import num_captured_steps
from anaphora.engine.memory_plan import MemoryDemand, activation_bytes, estimate_demand, graph_bytes
from anaphora.engine.plan import KVCapacity
from anaphora.errors import ConfigError
from tests.engine.test_config import MODEL
from tests.models_for_tests.tiny_checkpoint import ARCHITECTURES, tiny_config, weight_shapes

QWEN = ModelConfig(
    architecture="Qwen2ForCausalLM",
    vocab_size=152064,
    hidden_size=3584,
    intermediate_size=18944,
    num_layers=28,
    num_heads=28,
    num_kv_heads=4,
    head_dim=128,
    max_position_embeddings=32768,
    rms_norm_eps=1e-6,
    rope_theta=1e6,
    rope_scaling=None,
    tie_word_embeddings=False,
    qkv_bias=True,
    output_bias=False,
    mlp_bias=False,
    qk_norm=False,
    dtype="bfloat16",
    bos_token_id=None,
    eos_token_ids=(),
)
GIB = 2**30


def test_parameters_of_a_published_model() -> None:
    assert QWEN.num_parameters == 7_615_616_512


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_parameters_are_those_of_the_tensors(architecture: str) -> None:
    config = tiny_config(architecture)  # type: ignore[arg-type]
    hidden, heads, kv = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    model = replace(
        MODEL,
        vocab_size=config["vocab_size"],
        hidden_size=hidden,
        intermediate_size=config["intermediate_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=heads,
        num_kv_heads=kv,
        head_dim=config.get("head_dim") or hidden // heads,
        tie_word_embeddings=config["tie_word_embeddings"],
        qkv_bias=architecture == "qwen2",
        qk_norm=architecture == "qwen3",
    )
    assert model.num_parameters == sum(math.prod(shape) for shape in weight_shapes(config).values())


def test_what_is_left_for_keys_and_values() -> None:
    plan = EngineConfig(gpu_memory_utilization=0.85, max_model_len=4096).plan_memory(QWEN, 24 * GIB)
    assert plan.kv_bytes_per_token == 57_344
    assert plan.block_bytes == 917_504
    assert plan.demand.weights == 15_231_233_024
    assert plan.usable_bytes == int(20.4 * GIB)
    assert plan.num_blocks == (plan.usable_bytes - plan.demand.total) // 917_504
    assert plan.num_tokens == 16 * plan.num_blocks
    plan.check(4096)


def test_activations_are_those_of_the_wider_stage() -> None:
    assert activation_bytes(QWEN, 2, 2048, 1) == 2048 * (2 * 3584 + 3 * 18944) * 2
    assert activation_bytes(QWEN, 2, 16, 16) == 16 * 3584 * 2 + 16 * 152064 * 6
    assert graph_bytes(QWEN, 2, 0) == 0


def test_demand_measured_instead_of_estimated() -> None:
    demand = MemoryDemand(weights=2 * GIB, activations=GIB, graphs=0, context=GIB)
    config = EngineConfig(gpu_memory_utilization=0.5)
    memory = config.plan_memory(QWEN, 10 * GIB, demand)
    plan = config.resolve(QWEN, memory)
    assert memory.kv_bytes == GIB
    assert plan.kv_capacity == KVCapacity(1170, 18720, 1170 * 917_504)
    assert (plan.dtype, plan.is_on_gpu, plan.max_model_len) == ("bfloat16", True, 18720)
    assert plan.scheduler.max_num_batched_tokens == 2048
    assert EngineConfig(num_gpu_blocks_override=7).resolve(QWEN, memory).kv_capacity.num_blocks == 7
    assert EngineConfig(kv_cache_memory_bytes=917_504 * 3).resolve(QWEN, memory).kv_capacity.num_blocks == 3


def test_a_large_gpu_takes_more_tokens_in_a_step() -> None:
    assert EngineConfig().token_budget_on(QWEN, 80 * GIB) == 8192
    assert EngineConfig().token_budget_on(QWEN, 24 * GIB) == 2048
    assert EngineConfig(max_num_batched_tokens=512).token_budget_on(QWEN, 80 * GIB) == 512


@pytest.mark.parametrize(
    ("dtype", "stored", "computed"),
    [
        ("auto", "bfloat16", "bfloat16"),
        ("auto", "float16", "float16"),
        ("auto", "float32", "bfloat16"),
        ("float16", "bfloat16", "float16"),
    ],
)
def test_number_format_on_a_gpu(dtype: str, stored: str, computed: str) -> None:
    config = EngineConfig(dtype=dtype)  # type: ignore[arg-type]
    assert config.dtype_on(replace(QWEN, dtype=stored), is_gpu=True) == computed  # type: ignore[arg-type]


def test_what_does_not_fit_is_told_with_all_sizes() -> None:
    config = EngineConfig(gpu_memory_utilization=0.9, max_model_len=4096)
    with pytest.raises(ConfigError, match=r"of 16.00 GiB GPU memory 0.9 may be used \(14.40 GiB\), weights take 14.19"):
        config.resolve(QWEN, config.plan_memory(QWEN, 16 * GIB))


def test_estimate_counts_graphs_only_if_there_are_any() -> None:
    eager = estimate_demand(QWEN, 2, max_num_batched_tokens=2048, max_num_seqs=4, num_graphs=0)
    captured = estimate_demand(QWEN, 2, max_num_batched_tokens=2048, max_num_seqs=4, num_graphs=13)
    assert eager.graphs == 0
    assert captured.total - eager.total == captured.graphs > 0


def test_a_plan_counts_the_steps_that_a_start_captures() -> None:
    """For every bucket one for each size of tiles that its steps may need; with fixed tiles, one."""
    assert num_captured_steps(QWEN, 1, batch_invariant=False, is_float32=False) == 1
    num_buckets = len(TOKEN_BUCKETS)
    assert num_captured_steps(QWEN, 2048, batch_invariant=True, is_float32=False) == num_buckets
    num_steps = num_captured_steps(QWEN, 2048, batch_invariant=False, is_float32=False)
    assert 2 * num_buckets < num_steps < 4 * num_buckets
    for config, count in (
        (EngineConfig(), num_steps),
        (EngineConfig(deterministic=True), num_buckets),
        (EngineConfig(enforce_eager=True), 0),
        (EngineConfig(max_num_batched_tokens=1, max_model_len=1), 1),
    ):
        assert config.plan_memory(QWEN, 24 * GIB).demand.graphs == graph_bytes(QWEN, 2, count)
