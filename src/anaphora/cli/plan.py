"""`anaphora plan`: how a GPU's memory would be divided, from a model's configuration alone."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from anaphora.engine.memory_plan import MemoryPlan

_LEAST_GPU = 2**20


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("plan")(plan)


def plan(
    model: Annotated[str, typer.Argument(help="A folder (config.json suffices), a .gguf file or a hub name.")],
    gpu_memory: Annotated[str, typer.Option(help="Memory of the GPU, such as 24GiB.", metavar="SIZE")],
    gpu_memory_utilization: Annotated[
        float, typer.Option(help="Share of it that may be used.", min=0.01, max=1.0)
    ] = 0.9,
    max_model_len: Annotated[
        int | None,
        typer.Option(
            help="Tokens of prompt and output together. Default: the model's context, or what the KV holds.", min=1
        ),
    ] = None,
    dtype: Annotated[
        str, typer.Option(help="auto (as stored; float32 becomes bfloat16), bfloat16, float16, float32.")
    ] = "auto",
    block_size: Annotated[int, typer.Option(help="Tokens per block.", min=1)] = 16,
    max_num_seqs: Annotated[int, typer.Option(help="Requests that run at the same time.", min=1)] = 256,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option(help="Token budget of one step. Default: 8192 from 70 GiB on, else 2048.", min=1)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a table.")] = False,
) -> None:
    """Divide a GPU's memory for a model: weights, activations, graphs, and the blocks that are left for KV."""
    from anaphora.checkpoints import find_model_config
    from anaphora.engine.config import EngineConfig

    config = EngineConfig(
        dtype=dtype,  # type: ignore[arg-type]  # checked there
        block_size=block_size,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        gpu_memory_utilization=gpu_memory_utilization,
    )
    model_config = find_model_config(model)
    planned = config.plan_memory(model_config, _memory_of(gpu_memory))
    context = model_config.max_position_embeddings
    length = max_model_len or min(context, planned.num_tokens or context)
    facts = facts_of(planned, config.dtype_on(model_config, is_gpu=True), length)
    typer.echo(json.dumps(facts, indent=2)) if as_json else _print(facts)
    planned.check(length)


def facts_of(planned: "MemoryPlan", dtype: str, max_model_len: int) -> dict[str, Any]:
    """The plan as names and numbers; sizes in bytes."""
    return {
        "dtype": dtype,
        "gpu_bytes": planned.gpu_bytes,
        "gpu_memory_utilization": planned.utilization,
        "usable_bytes": planned.usable_bytes,
        "weight_bytes": planned.demand.weights,
        "activation_bytes": planned.demand.activations,
        "graph_bytes": planned.demand.graphs,
        "context_bytes": planned.demand.context,
        "kv_bytes": max(0, planned.kv_bytes),
        "kv_bytes_per_token": planned.kv_bytes_per_token,
        "block_size": planned.block_size,
        "block_bytes": planned.block_bytes,
        "num_blocks": planned.num_blocks,
        "num_tokens": planned.num_tokens,
        "max_model_len": max_model_len,
        "num_longest_requests": planned.num_tokens // max_model_len,
    }


def _memory_of(text: str) -> int:
    from anaphora.cli.settings_sources import parse_size
    from anaphora.errors import ConfigError

    size = parse_size(text, "--gpu-memory")
    if size < _LEAST_GPU and text.strip().isdigit():  # "24" is meant as 24 GiB, and no GPU is so small
        raise ConfigError(f"--gpu-memory {text.strip()} would be bytes: did you mean {text.strip()}GiB?")
    return size


def _print(facts: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "size", box=None)
    table.columns[1].justify = "right"
    for name, value in facts.items():
        is_size = name.endswith("_bytes") and name != "block_bytes"
        shown = f"{value / 2**30:.2f} GiB" if is_size else f"{value:,}" if isinstance(value, int) else str(value)
        table.add_row(name.removesuffix("_bytes" if is_size else "").replace("_", " "), shown)
    Console().print(table)
