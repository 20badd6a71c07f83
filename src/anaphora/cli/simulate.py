"""`anaphora simulate`: what other caches would have done with a trace."""

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.progress_bar import progress_bar
from anaphora.cli.simulate_timing import (
    LatencyOption,
    MaxNumBatchedTokensOption,
    MaxNumSeqsOption,
    RateScaleOption,
    TargetPrefillTokensOption,
    server_of,
    timed,
)

if TYPE_CHECKING:
    from anaphora.sim.capacity import Capacity
    from anaphora.sim.sampled_sweep import SampledSweep
    from anaphora.sim.sampling import Sample
    from anaphora.sim.sweep import RunPlan, SimulatedRun, Sweep
    from anaphora.traces.request import Trace

CapacityOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Cache sizes, separated by commas: 10k (blocks of the trace), 5% (of its distinct blocks), "
        "2x (the memory of the server that wrote a request log), 8GiB@MODEL, inf. "
        "Default: 1%,2%,5%,10%,20%,40%,100%,inf; of a request log 1x,2x,4x,inf."
    ),
]
PolicyOption = Annotated[
    list[str] | None,
    typer.Option(
        help="Eviction policy: fifo, lfu, lru, return-rate, s3fifo, slru; default, the engine's (return-rate); "
        "or belady, the bound that no cache can beat. May be given several times. Default: default."
    ),
]
BlockSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Tokens per block of the cache. Default: the trace's own, or 16.")
]
FormatOption = Annotated[str | None, typer.Option("--format", help="The trace's format, if not detected.")]
TraceBlockSizeOption = Annotated[
    int | None, typer.Option(min=1, help="Tokens a block id of the trace stands for, if not as the format says.")
]
ModelOption = Annotated[
    str | None, typer.Option(help="Model whose tokenizer and chat template turn texts into tokens.")
]
SampleOption = Annotated[
    float,
    typer.Option(
        "--sample",
        help="Replay this share of the groups of prompts that begin alike, in smaller caches. Rates are then estimates "
        "for the whole trace, with their expected error.",
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Processes to spread the work over: each run by either rule of counting, and each simulation in time. "
        "Default: as many as there are cores to use.",
    ),
]
FirstOption = Annotated[
    int | None, typer.Option("--first", min=1, metavar="N", help="Replay the first N requests of the trace only.")
]
OutOption = Annotated[Path | None, typer.Option(help="Folder for results.json, runs.csv, figures and report.html.")]

DEFAULT_CAPACITIES = "1%,2%,5%,10%,20%,40%,100%,inf"
SERVED_CAPACITIES = "1x,2x,4x,inf"
"""Of a request log: what its server had, and more."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("simulate")(simulate)


def simulate(
    trace: Annotated[Path, typer.Argument(help="A request trace, compressed or not.")],
    capacity: CapacityOption = None,
    policy: PolicyOption = None,
    block_size: BlockSizeOption = None,
    trace_format: FormatOption = None,
    trace_block_size: TraceBlockSizeOption = None,
    model: ModelOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")] = False,
    jobs: JobsOption = None,
    sample_fraction: SampleOption = 1.0,
    first: FirstOption = None,
    latency: LatencyOption = None,
    rate_scale: RateScaleOption = None,
    max_num_seqs: MaxNumSeqsOption = None,
    max_num_batched_tokens: MaxNumBatchedTokensOption = None,
    target_prefill_tokens: TargetPrefillTokensOption = None,
    out: OutOption = None,
) -> None:
    """Replay a trace through the engine's own cache core: hit rates and ledgers for any memory and policy.

    With --latency also through its scheduler, in simulated time: first-token times, queueing and load.
    """
    from anaphora.cli.trace_input import kv_bytes_per_token, read_for_cache
    from anaphora.cores import num_usable_cores
    from anaphora.errors import ConfigError
    from anaphora.report.output_folder import make_folder
    from anaphora.sim.capacity import parse_capacities
    from anaphora.sim.collector import collector_paused
    from anaphora.sim.prompt_blocks import cut_into_blocks
    from anaphora.sim.report.results import results_of
    from anaphora.sim.sampling import sample
    from anaphora.sim.sweep import Sweep, core_policy

    for name in policy or ():
        core_policy(name)
    sizes = parse_capacities(",".join(capacity or ()), kv_bytes_per_token)
    if capacity and not sizes:
        raise ConfigError("--capacity names no size: write 10k (blocks), 5%, 2x, 8GiB@MODEL, or inf, or leave it out")
    server = server_of(
        latency,
        rate_scale=rate_scale,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        target_prefill_tokens=target_prefill_tokens,
        is_sample=sample_fraction != 1,
    )
    if out is not None:
        make_folder(out, replaces="runs.csv")
    with collector_paused():
        read = read_for_cache(trace, trace_format, trace_block_size, model)
        read = replace(read, requests=read.requests[:first])
        sweep = Sweep(cut_into_blocks(read, block_size))
        working_set = sweep.working_set
    served = read.served_by
    if not capacity:
        usual = parse_capacities(SERVED_CAPACITIES if served else DEFAULT_CAPACITIES, kv_bytes_per_token)
        sizes = [size for size in usual if size.share is None or size.share * working_set >= 1]
    plans = _plans(read, sweep, policy or [served.eviction_policy if served else "default"], sizes)
    drawn = None if sample_fraction == 1 else sample(sweep.prompts, sample_fraction)
    replayed = sweep if drawn is None else _sampled(sweep, drawn)
    num_jobs = jobs or num_usable_cores()
    runs, reuse = _run(sweep, replayed, plans, num_jobs)
    results = results_of(read, working_set, reuse, runs, drawn, shlex.join(["anaphora", *sys.argv[1:]]))
    if server is not None:
        results = timed(results, sweep.prompts, plans, server, served_by=served, num_jobs=num_jobs)
    _show(results, out, as_json)


def _plans(trace: "Trace", sweep: "Sweep", policies: Sequence[str], sizes: Sequence["Capacity"]) -> list["RunPlan"]:
    """Every policy at every capacity, none of them twice."""
    from anaphora.sim.prompt_blocks import own_block_size
    from anaphora.sim.sweep import RunPlan

    served, own_size = trace.served_by, own_block_size(trace) or sweep.block_size
    served_tokens = served.num_blocks * served.block_size if served else None
    blocks = [size.num_blocks(sweep.block_size, own_size, sweep.working_set, served_tokens) for size in sizes]
    return list(dict.fromkeys(RunPlan(name, num_blocks) for name in policies for num_blocks in blocks))


def _sampled(sweep: "Sweep", drawn: "Sample") -> "SampledSweep":
    from anaphora.sim.sampled_sweep import SampledSweep

    return SampledSweep(sweep, drawn)


def _run(
    whole: "Sweep", replayed: "Sweep | SampledSweep", plans: Sequence["RunPlan"], num_jobs: int
) -> tuple[list["SimulatedRun"], dict[str, Any]]:
    """All runs; and what the whole trace tells of reuse, which is worked out beside them."""
    from anaphora.sim.spread import spread

    def reuse(progress: Callable[[int], None]) -> dict[str, Any]:
        from anaphora.sim.reuse import reuse_of  # with numpy, which replays beside it need not wait for

        return reuse_of(whole.prompts, whole.computed_paths)

    with progress_bar("replaying", replayed.num_requests_per_run * len(plans)) as advance:
        found, *counts = spread([reuse, *replayed.tasks(plans)], advance, num_jobs=num_jobs)
    return replayed.runs_of(plans, counts), found


def _show(results: Mapping[str, Any], out: Path | None, as_json: bool) -> None:
    """Into a folder, if one is named; and to the terminal, for people or programs."""
    if out is not None:
        from anaphora.sim.report.page import write_report

        write_report(results, out)
    if as_json:
        typer.echo(json.dumps(results, ensure_ascii=False, allow_nan=False))
    else:
        from rich.console import Console

        from anaphora.sim.report.terminal import print_simulation

        print_simulation(results, Console())
