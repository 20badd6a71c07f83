"""What a model needs of a GPU's memory, by arithmetic, and what is left for keys and values. No torch.

``anaphora plan`` shows these numbers for a GPU that need not be there. The engine measures instead of estimating where
it can (weights and activations, by a pass over the largest step), and divides by the same functions.
"""

from dataclasses import dataclass

from anaphora.checkpoints.model_config import ModelConfig
from anaphora.errors import ConfigError

DEFAULT_GPU_MEMORY_UTILIZATION = 0.9
LOGITS_BYTES = 4
"""Logits are float32, whatever the weights are."""
MAX_LOGITS_ROWS = 256
"""Rows of logits computed at once: 50 MB in float32 for a vocabulary of 49 thousand."""
CONTEXT_BYTES = 680 * 2**20
"""CUDA's own context and loaded kernels, as an H200 showed them."""
MAX_GRAPH_TOKENS = 1024
"""Of a captured step, at most."""
BYTES_PER_GRAPH = 4 * 2**20
"""A captured step, without activations and logits, which all share. With them, 59 steps of a model of 28 layers took
0.40 GiB of an H200."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryDemand:
    """Bytes of a GPU that are no keys and values."""

    weights: int
    activations: int
    """At the peak of the largest step."""
    graphs: int
    context: int

    @property
    def total(self) -> int:
        return self.weights + self.activations + self.graphs + self.context


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPlan:
    """How a GPU's memory is divided. ``utilization``: the share of ``gpu_bytes`` that may be used at all."""

    gpu_bytes: int
    utilization: float
    demand: MemoryDemand
    kv_bytes_per_token: int
    block_size: int
    """Tokens per block."""

    @property
    def usable_bytes(self) -> int:
        return int(self.gpu_bytes * self.utilization)

    @property
    def kv_bytes(self) -> int:
        """What is left for keys and values; negative if the model does not fit."""
        return self.usable_bytes - self.demand.total

    @property
    def block_bytes(self) -> int:
        return self.kv_bytes_per_token * self.block_size

    @property
    def num_blocks(self) -> int:
        return max(0, self.kv_bytes // self.block_bytes)

    @property
    def num_tokens(self) -> int:
        """Tokens whose keys and values fit."""
        return self.num_blocks * self.block_size

    def check(self, max_model_len: int | None) -> None:
        """See that the model fits with one request of ``max_model_len`` tokens (``None``: with one block).

        Raises:
            ConfigError: it does not.
        """
        num_wanted = -(-(max_model_len or 1) // self.block_size)
        if self.num_blocks >= num_wanted:
            return
        missing = num_wanted * self.block_bytes - self.kv_bytes
        raise ConfigError(
            f"the model does not fit: of {gib(self.gpu_bytes)} GPU memory {self.utilization:g} may be used "
            f"({gib(self.usable_bytes)}), weights take {gib(self.demand.weights)}, activations, graphs and context "
            f"{gib(self.demand.total - self.demand.weights)}, and {gib(missing)} are missing for "
            f"{num_wanted * self.block_size} tokens of keys and values: raise gpu_memory_utilization, or lower "
            "max_model_len or max_num_batched_tokens"
        )


def estimate_demand(
    model: ModelConfig, element_bytes: int, *, max_num_batched_tokens: int, max_num_seqs: int, num_graphs: int
) -> MemoryDemand:
    """The demand of ``model`` by its sizes alone."""
    num_rows = min(max_num_seqs, max_num_batched_tokens, MAX_LOGITS_ROWS)
    return MemoryDemand(
        weights=model.num_parameters * element_bytes,
        activations=activation_bytes(model, element_bytes, max_num_batched_tokens, num_rows),
        graphs=graph_bytes(model, element_bytes, num_graphs),
        context=CONTEXT_BYTES,
    )


def activation_bytes(model: ModelConfig, element_bytes: int, num_tokens: int, num_rows: int) -> int:
    """Most bytes alive at once in a pass over ``num_tokens`` tokens with ``num_rows`` rows of logits.

    Two stages compete. In a layer's MLP: residual and normalised tokens, gate and up, and their product. At the head:
    the logits as computed and in float32, beside the residual.
    """
    mlp = num_tokens * (2 * model.hidden_size + 3 * model.intermediate_size) * element_bytes
    head = num_tokens * model.hidden_size * element_bytes
    head += num_rows * model.vocab_size * (element_bytes + LOGITS_BYTES)
    return max(mlp, head)


def graph_bytes(model: ModelConfig, element_bytes: int, num_graphs: int) -> int:
    """What captured steps keep: one pool of activations for all of them, and each one's own nodes."""
    if not num_graphs:
        return 0
    pool = activation_bytes(model, element_bytes, MAX_GRAPH_TOKENS, MAX_LOGITS_ROWS)
    return pool + num_graphs * BYTES_PER_GRAPH


def gib(num_bytes: int) -> str:
    """As people read it."""
    return f"{num_bytes / 2**30:.2f} GiB"
