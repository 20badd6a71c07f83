"""`anaphora simulate`: what other caches would have done with a trace."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.sim.sweep import RunPlan, SimulatedRun, Sweep
    from anaphora.traces.request import Trace


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(
    trace: Annotated[Path, typer.Argument(help="A request trace, compressed or not.")],
    capacity: Annotated[
        list[str] | None,
        typer.Option(
            help="Cache sizes, separated by commas: 10k (blocks of the trace), 5% (of its distinct blocks), "
            "8GiB@MODEL, inf. Default: 5%,10%,20%,40%,inf."
        ),
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Eviction policy; may be given several times. belady is the bound that no cache can beat."),
    ] = None,
    block_size: Annotated[
        int | None, typer.Option(min=1, help="Tokens per block of the cache. Default: the trace's own, or 16.")
    ] = None,
    trace_format: Annotated[str | None, typer.Option("--format", help="The trace's format, if not detected.")] = None,
    trace_block_size: Annotated[
        int | None, typer.Option(min=1, help="Tokens a block id of the trace stands for, if not as the format says.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model whose tokenizer and chat template turn texts into tokens.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Processes to spread the runs over.")] = 1,
    sample_fraction: Annotated[
        float,
        typer.Option("--sample", help="Replay this share of the prompts that begin alike, in caches smaller by it."),
    ] = 1.0,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results.json, runs.csv, figures and report.html.")
    ] = None,
) -> None:
    """Replay a trace through the engine's own cache core: hit rates and ledgers for any memory and policy."""
    from rich.console import Console

    from anaphora.cli.simulation_output import print_simulation, results_of, write_simulation
    from anaphora.sim.capacity import parse_capacities
    from anaphora.sim.prompt_blocks import cut_into_blocks
    from anaphora.sim.sampling import sample
    from anaphora.sim.sweep import RunPlan, Sweep, core_policy

    for name in policy or ():
        core_policy(name)
    sizes = parse_capacities(",".join(capacity or ["5%,10%,20%,40%,inf"]), _kv_bytes_per_token)
    read = _read(trace, trace_format, trace_block_size, model)
    sweep = Sweep(cut_into_blocks(read, block_size))
    own_size = read.block_size or sweep.block_size
    blocks = [size.num_blocks(sweep.block_size, own_size, sweep.working_set) for size in sizes]
    plans = [RunPlan(name, num_blocks) for name in policy or ["default"] for num_blocks in blocks]
    drawn = None if sample_fraction == 1 else sample(sweep.prompts, sample_fraction)
    replayed = sweep if drawn is None else Sweep(drawn.prompts, drawn.scale)
    runs = _run(replayed, list(dict.fromkeys(plans)), jobs, Console(stderr=True))
    results = results_of(read, sweep, runs, drawn)
    if out is not None:
        from anaphora.cli.simulation_page import write_page

        write_simulation(results, out)
        write_page(results, out)
    if as_json:
        typer.echo(json.dumps(results, ensure_ascii=False, allow_nan=False))
    else:
        print_simulation(results, Console())


def _read(path: Path, trace_format: str | None, trace_block_size: int | None, model: str | None) -> "Trace":
    from anaphora.traces.reader import read_trace
    from anaphora.traces.tokenised import needs_tokenizer, tokenised

    trace = read_trace(path, format_name=trace_format, block_size=trace_block_size)
    if model is None or not needs_tokenizer(trace):
        return trace
    return tokenised(trace, _encoder(model))


def _encoder(model: str) -> Any:
    """Texts and chats into tokens exactly as the server does it."""
    from anaphora.checkpoints import find_checkpoint
    from anaphora.protocol.messages import Message
    from anaphora.tokenizer import Tokenizer
    from anaphora.traces.request import ChatPrompt, TextPrompt

    folder = Path(model)
    tokenizer = Tokenizer.from_folder(folder if folder.is_dir() else find_checkpoint(model).path)

    def encode(prompt: ChatPrompt | TextPrompt) -> Sequence[int]:
        if isinstance(prompt, TextPrompt):
            return tokenizer.encode(prompt.text)
        messages = [Message.model_validate(message).for_template() for message in prompt.messages]
        return tokenizer.encode_chat(messages, tools=prompt.tools or None, **prompt.template_kwargs)

    return encode


def _kv_bytes_per_token(model: str) -> int:
    """Keys and values in half precision, as servers keep them."""
    from anaphora.checkpoints import find_checkpoint, read_model_config

    folder = Path(model)
    config = read_model_config(folder) if folder.is_dir() else find_checkpoint(model).config
    return config.kv_bytes_per_token(element_bytes=2)


def _run(sweep: "Sweep", plans: Sequence["RunPlan"], num_jobs: int, console: "Console") -> list["SimulatedRun"]:
    """With a bar on a terminal, and without a word elsewhere."""
    from rich.progress import Progress

    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("replaying", total=2 * len(sweep.prompts) * len(plans))
        return sweep.run_all(plans, lambda num_done: bar.advance(task, num_done), num_jobs=num_jobs)
