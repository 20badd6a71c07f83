import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from tests.models_for_tests import ARCHITECTURES, tiny_config
from tests.models_for_tests.tiny_checkpoint import Architecture

from anaphora.checkpoints import ModelConfig, RopeScaling, read_eos_token_ids, read_model_config
from anaphora.errors import CheckpointError


def write(folder: Path, config: dict[str, Any], name: str = "config.json") -> Path:
    (folder / name).write_text(json.dumps(config), "utf-8")
    return folder


def read(folder: Path, architecture: Architecture = "llama3", **overrides: Any) -> ModelConfig:
    return read_model_config(write(folder, tiny_config(architecture, **overrides)))


def test_every_field_of_a_llama_3_configuration(tmp_path: Path) -> None:
    assert read(tmp_path, "llama3") == ModelConfig(
        architecture="LlamaForCausalLM",
        vocab_size=400,
        hidden_size=64,
        intermediate_size=96,
        num_layers=3,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        max_position_embeddings=512,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        rope_scaling=RopeScaling("llama3", 8.0, 64, low_freq_factor=1.0, high_freq_factor=4.0),
        tie_word_embeddings=True,
        qkv_bias=False,
        output_bias=False,
        mlp_bias=False,
        qk_norm=False,
        dtype="float32",
        bos_token_id=None,
        eos_token_ids=(2,),
    )


def test_what_sets_the_architectures_apart(tmp_path: Path) -> None:
    rows = {name: read(tmp_path, name) for name in ARCHITECTURES}
    assert {name: (c.qkv_bias, c.output_bias, c.qk_norm, c.head_dim) for name, c in rows.items()} == {
        "llama3": (False, False, False, 16),
        "mistral": (False, False, False, 24),
        "qwen2": (True, False, False, 16),
        "qwen3": (False, False, True, 32),
        "llama-yarn": (False, False, False, 16),
    }


def test_kv_bytes_per_token(tmp_path: Path) -> None:
    assert read(tmp_path).kv_bytes_per_token() == 2 * 3 * 2 * 16 * 4
    assert read(tmp_path).kv_bytes_per_token(2) == 2 * 3 * 2 * 16 * 2


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3"])
def test_files_that_transformers_writes_are_understood(tmp_path: Path, name: str) -> None:
    config = getattr(transformers, f"{name}Config")(
        hidden_size=64, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, max_position_embeddings=4096
    )
    config.architectures = [f"{name}ForCausalLM"]
    config.save_pretrained(tmp_path)
    ours = read_model_config(tmp_path)
    assert (ours.rope_theta, ours.rope_scaling) == (config.rope_parameters["rope_theta"], None)
    assert ours.head_dim == getattr(config, "head_dim", None) or 64 // 4
    assert ours.rms_norm_eps == config.rms_norm_eps
    assert ours.vocab_size == config.vocab_size


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3"])
def test_missing_keys_mean_what_transformers_takes_them_for(tmp_path: Path, name: str) -> None:
    known = {"vocab_size": 100, "hidden_size": 4096, "intermediate_size": 96, "num_hidden_layers": 1}
    known |= {"num_attention_heads": 32, "max_position_embeddings": 64}
    ours = read_model_config(write(tmp_path, {"model_type": name.lower(), **known}))
    theirs = getattr(transformers, f"{name}Config")(**known)
    assert ours.num_kv_heads == theirs.num_key_value_heads
    assert ours.head_dim == (getattr(theirs, "head_dim", None) or 128)
    assert ours.rms_norm_eps == theirs.rms_norm_eps
    assert ours.rope_theta == theirs.rope_parameters["rope_theta"]
    assert ours.tie_word_embeddings == theirs.tie_word_embeddings


def test_the_published_file_of_the_default_model_is_understood(tmp_path: Path) -> None:
    published: dict[str, Any] = {
        "is_llama_config": True,
        "rope_interleaved": False,
        "pretraining_tp": 1,
        "initializer_range": 0.041666666666666664,
        "use_cache": True,
        "attention_dropout": 0.0,
        "rope_scaling": None,
        "rope_theta": 100000,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.42.3",
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    }
    config = read(tmp_path, **published)
    assert (config.rope_theta, config.dtype) == (100000.0, "bfloat16")


class TestRefusals:
    @pytest.mark.parametrize(
        ("overrides", "named"),
        [
            ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
            ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping"),
            ({"final_logit_softcapping": 30.0}, "final_logit_softcapping"),
            ({"num_local_experts": 8}, "num_local_experts"),
            ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
            ({"rope_interleaved": True}, "rope_interleaved"),
            ({"hidden_act": "gelu"}, "hidden_act"),
            ({"auto_map": {"AutoModel": "x.y"}}, "auto_map"),
            ({"something_new": 1}, "something_new"),
            ({"torch_dtype": "float8_e4m3fn"}, "torch_dtype"),
            ({"num_key_value_heads": 3}, "num_key_value_heads"),
            ({"head_dim": 15}, "head_dim"),
            ({"hidden_size": "64"}, "hidden_size"),
            ({"hidden_size": True}, "hidden_size"),
            ({"rms_norm_eps": 0}, "rms_norm_eps"),
            ({"rope_theta": float("inf")}, "rope_theta"),
            ({"vocab_size": None}, "vocab_size is missing"),
            ({"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
            ({"eos_token_id": "</s>"}, "eos_token_id"),
            ({"model_type": "gemma"}, "model_type"),
        ],
    )
    def test_a_key_that_is_not_understood_is_named(self, tmp_path: Path, overrides: dict[str, Any], named: str) -> None:
        with pytest.raises(CheckpointError, match=rf"config\.json: {named}"):
            read(tmp_path, **overrides)

    def test_null_means_absent(self, tmp_path: Path) -> None:
        assert read(tmp_path, something_new=None, quantization_config=None) == read(tmp_path)

    @pytest.mark.parametrize("architectures", [["GemmaForCausalLM"], ["LlamaForCausalLM", "X"], "LlamaForCausalLM", 3])
    def test_other_architectures(self, tmp_path: Path, architectures: Any) -> None:
        with pytest.raises(CheckpointError, match=r"architecture .* is not supported .*Qwen3ForCausalLM"):
            read(tmp_path, architectures=architectures)

    @pytest.mark.parametrize("text", ["", "{", "[]", "\xff", "[" * 100_000])
    def test_damaged_files(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "config.json").write_text(text, "latin-1")
        with pytest.raises(CheckpointError, match=r"config\.json is damaged"):
            read_model_config(tmp_path)

    def test_missing_and_unreadable_files(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match=r"config\.json is missing"):
            read_model_config(tmp_path)
        (tmp_path / "config.json").mkdir()
        with pytest.raises(CheckpointError, match=r"config\.json cannot be read: Is a directory"):
            read_model_config(tmp_path)


class TestBiases:
    def test_llama_and_qwen3_have_them_on_all_four_projections_or_none(self, tmp_path: Path) -> None:
        for architecture in ("llama3", "qwen3"):
            config = read(tmp_path, architecture, attention_bias=True)
            assert (config.qkv_bias, config.output_bias) == (True, True)

    def test_only_llama_has_them_in_the_mlp(self, tmp_path: Path) -> None:
        assert read(tmp_path, "llama3", mlp_bias=True).mlp_bias
        with pytest.raises(CheckpointError, match="mlp_bias = true is not supported for this architecture"):
            read(tmp_path, "qwen2", mlp_bias=True)

    def test_qwen2_and_mistral_may_only_repeat_what_they_are(self, tmp_path: Path) -> None:
        assert read(tmp_path, "qwen2", attention_bias=True).output_bias is False
        with pytest.raises(CheckpointError, match="attention_bias = false"):
            read(tmp_path, "qwen2", attention_bias=False)
        with pytest.raises(CheckpointError, match="attention_bias = true"):
            read(tmp_path, "mistral", attention_bias=True)


class TestSlidingWindow:
    @pytest.mark.parametrize(
        ("architecture", "overrides"),
        [
            ("mistral", {"sliding_window": 512}),
            ("mistral", {"sliding_window": None, "layer_types": None}),
            ("qwen2", {"use_sliding_window": False, "sliding_window": 16}),
            ("qwen2", {"use_sliding_window": True, "sliding_window": 512}),
            ("qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3}),
            ("qwen2", {"use_sliding_window": True, "sliding_window": 16, "layer_types": ["full_attention"] * 3}),
        ],
    )
    def test_one_that_does_nothing(self, tmp_path: Path, architecture: Any, overrides: dict[str, Any]) -> None:
        read(tmp_path, architecture, **overrides)

    @pytest.mark.parametrize(
        ("architecture", "overrides"),
        [
            ("mistral", {"sliding_window": 511}),
            ("mistral", {"sliding_window": 16, "layer_types": ["full_attention"] * 3}),
            ("qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 2}),
            ("qwen2", {"layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
            ("qwen3", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 0}),
        ],
    )
    def test_one_that_works(self, tmp_path: Path, architecture: Any, overrides: dict[str, Any]) -> None:
        with pytest.raises(CheckpointError, match=r"(sliding_window|layer_types) = .* not supported"):
            read(tmp_path, architecture, **overrides)


class TestRope:
    LLAMA3 = ARCHITECTURES["llama3"]["rope_scaling"]

    def test_both_spellings_say_the_same(self, tmp_path: Path) -> None:
        old = read(tmp_path)
        new = read(
            tmp_path, rope_theta=None, rope_scaling=None, rope_parameters={**self.LLAMA3, "rope_theta": 500000.0}
        )
        both = read(tmp_path, rope_parameters={**self.LLAMA3, "rope_theta": 500000})
        assert old == new == both

    def test_contradictions(self, tmp_path: Path) -> None:
        with pytest.raises(CheckpointError, match="rope_parameters contradicts"):
            read(tmp_path, rope_parameters={**self.LLAMA3, "rope_theta": 10000.0})
        with pytest.raises(CheckpointError, match="rope_parameters contradicts"):
            read(tmp_path, rope_parameters={"rope_type": "default"})

    def test_the_kind_may_be_called_type(self, tmp_path: Path) -> None:
        config = read(tmp_path, rope_scaling={"type": "linear", "factor": 2.0})
        assert config.rope_scaling == RopeScaling("linear", 2.0, 512)
        assert read(tmp_path, rope_scaling={"type": "default"}).rope_scaling is None
        assert read(tmp_path, rope_scaling={}).rope_scaling is None

    def test_yarn_with_and_without_everything(self, tmp_path: Path) -> None:
        plain = {"rope_type": "yarn", "original_max_position_embeddings": 128}
        assert read(tmp_path, rope_scaling=plain).rope_scaling == RopeScaling("yarn", 4.0, 128)
        every = plain | {"factor": 8, "beta_fast": 16, "beta_slow": 2, "attention_factor": 1.5}
        every |= {"mscale": 0.7, "mscale_all_dim": 0.5, "truncate": False}
        assert read(tmp_path, rope_scaling=every).rope_scaling == RopeScaling(
            "yarn",
            8.0,
            128,
            beta_fast=16.0,
            beta_slow=2.0,
            attention_factor=1.5,
            mscale=0.7,
            mscale_all_dim=0.5,
            truncate=False,
        )

    def test_a_top_level_original_length_wins(self, tmp_path: Path) -> None:
        scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128}
        config = read(tmp_path, rope_scaling=scaling, original_max_position_embeddings=256)
        assert config.rope_scaling == RopeScaling("yarn", 4.0, 256)

    @pytest.mark.parametrize(
        ("scaling", "message"),
        [
            ({"rope_type": "dynamic", "factor": 2.0}, "rope_type dynamic is not supported"),
            ({"rope_type": "longrope", "short_factor": [1], "long_factor": [2]}, "rope_type longrope"),
            ({"type": "mrope", "mrope_section": [16, 24, 24]}, "rope_type mrope"),
            ({"rope_type": "yarn", "type": "linear", "factor": 2.0}, "rope_type linear and yarn"),
            (
                {"rope_type": "linear", "factor": 2.0, "beta_fast": 3},
                "beta_fast is not understood for rope_type linear",
            ),
            ({"rope_type": "default", "factor": 2.0}, "factor = 2.0 needs a rope_type"),
            ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
            ({"rope_type": "linear"}, "factor is missing"),
            ({"full_attention": {"rope_type": "default"}}, "full_attention is not understood"),
            ("yarn", "rope_scaling = .* must be an object"),
        ],
    )
    def test_refusals(self, tmp_path: Path, scaling: Any, message: str) -> None:
        with pytest.raises(CheckpointError, match=message):
            read(tmp_path, rope_scaling=scaling)


def test_ids_that_end_a_generation_come_from_both_files(tmp_path: Path) -> None:
    assert read_eos_token_ids(tmp_path) == ()
    write(tmp_path, tiny_config("llama3", eos_token_id=[7, 5]))
    assert read_model_config(tmp_path).eos_token_ids == (7, 5)
    write(tmp_path, {"eos_token_id": [5, 9], "temperature": 0.6}, "generation_config.json")
    assert read_model_config(tmp_path).eos_token_ids == (7, 5, 9)
    assert read_eos_token_ids(tmp_path) == (7, 5, 9)


def test_the_beginning_token(tmp_path: Path) -> None:
    assert read(tmp_path, bos_token_id=1).bos_token_id == 1
    assert read(tmp_path, dtype="torch.float16", torch_dtype=None).dtype == "float16"
    assert read(tmp_path, torch_dtype=None).dtype == "float32"
