"""What a checkpoint's configuration says about the mathematics, as one frozen value."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """Rotary frequency scaling. Fields that a kind does not use keep their defaults.

    ``llama3``: ``factor``, ``low_freq_factor``, ``high_freq_factor``, ``original_max_position_embeddings``.
    ``yarn`` (arXiv 2309.00071): ``factor``, ``original_max_position_embeddings``, ``beta_fast``, ``beta_slow``,
    ``attention_factor`` (``None``: derived from ``factor``), ``mscale``, ``mscale_all_dim``, ``truncate``.
    ``linear``: ``factor``.
    """

    kind: Literal["llama3", "yarn", "linear"]
    factor: float
    original_max_position_embeddings: int
    low_freq_factor: float = 1.0
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """Sizes and switches of a decoder of the Llama family. One row of a table tells Llama, SmolLM2, Mistral, Qwen2/2.5
    and Qwen3 apart; nothing else does."""

    architecture: str
    """As in ``config.json``: ``LlamaForCausalLM``, or the same of Mistral, Qwen2 or Qwen3."""
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    max_position_embeddings: int
    rms_norm_eps: float
    rope_theta: float
    rope_scaling: RopeScaling | None
    tie_word_embeddings: bool
    qkv_bias: bool
    output_bias: bool
    """Bias on the attention's output projection."""
    mlp_bias: bool
    qk_norm: bool
    """RMSNorm over each query and key head (Qwen3)."""
    dtype: Literal["float32", "float16", "bfloat16"]
    """In which the weights are stored."""
    bos_token_id: int | None
    eos_token_ids: tuple[int, ...]
    """Every id that ends a generation: from ``generation_config.json`` where it says more than ``config.json``."""

    def kv_bytes_per_token(self, element_bytes: int = 4) -> int:
        """Bytes of keys and values that one token takes over all layers."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim * element_bytes

    @property
    def num_parameters(self) -> int:
        """Weights of the whole model; a head that is tied to the embedding counts once."""
        query, kv = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        hidden, inner = self.hidden_size, self.intermediate_size
        attention = hidden * (query + 2 * kv) + query * hidden
        biases = self.qkv_bias * (query + 2 * kv) + self.output_bias * hidden + self.mlp_bias * (2 * inner + hidden)
        norms = 2 * hidden + self.qk_norm * 2 * self.head_dim
        layers = self.num_layers * (attention + 3 * hidden * inner + biases + norms)
        tables = self.vocab_size * hidden * (1 if self.tie_word_embeddings else 2)
        return layers + hidden + tables
