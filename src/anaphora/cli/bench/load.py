"""`anaphora bench load`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.bench.run_options import refuse_two_ways
from anaphora.cli.numbers import parse_decimals, parse_numbers
from anaphora.errors import ConfigError

if TYPE_CHECKING:
    from anaphora.cli.bench.run_options import RunOptions
    from anaphora.lab.load.settings import LoadSettings

_LOAD, _REPLAY, _PROMPTS = "Load", "Replay of a trace", "Prompts"


def load(
    *,
    concurrency: Annotated[
        str | None,
        typer.Option(
            metavar="N,N,…",
            help="Closed loop: so many clients, each asks again when answered (default: 1,4,16,32).",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,…",
            help="Open loop: so many requests a second, at random (Poisson) times.",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    duration: Annotated[
        float, typer.Option(metavar="SECONDS", help="What is measured of each stage.", rich_help_panel=_LOAD)
    ] = 30.0,
    warmup: Annotated[
        float, typer.Option(metavar="SECONDS", help="What comes before, in no figure.", rich_help_panel=_LOAD)
    ] = 5.0,
    requests: Annotated[
        int | None,
        typer.Option(help="Closed loop: a stage also ends after so many answers.", rich_help_panel=_LOAD),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often the whole sweep is run.", rich_help_panel=_LOAD)] = 1,
    slo: Annotated[
        str | None,
        typer.Option(
            metavar="LIMITS",
            help="Limits for goodput, like ttft_ms=200,tpot_ms=30 (also e2e_ms).",
            rich_help_panel=_LOAD,
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            help="Sending processes (default: as many as the calibrated client needs).", rich_help_panel=_LOAD
        ),
    ] = None,
    request_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", help="When a request counts as failed.", rich_help_panel=_LOAD)
    ] = 300.0,
    prefix_tokens: Annotated[
        int, typer.Option(help="Shared system prompt, in tokens; 0: none.", rich_help_panel=_PROMPTS)
    ] = 1024,
    prefixes: Annotated[
        int, typer.Option(help="How many system prompts requests take in turn.", rich_help_panel=_PROMPTS)
    ] = 1,
    unique_tokens: Annotated[
        int, typer.Option(help="Prompt tokens that each request has for itself.", rich_help_panel=_PROMPTS)
    ] = 64,
    output_tokens: Annotated[
        int, typer.Option(help="Tokens of an answer, where a trace does not say.", rich_help_panel=_PROMPTS)
    ] = 64,
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Replay its requests at their times: Mooncake, Bailian, request logs, token ids, messages.",
            rich_help_panel=_REPLAY,
        ),
    ] = None,
    trace_format: Annotated[
        str | None, typer.Option(metavar="NAME", help="If it is not told by itself.", rich_help_panel=_REPLAY)
    ] = None,
    trace_block_size: Annotated[
        int | None, typer.Option(help="Tokens a block id stands for, if not the usual.", rich_help_panel=_REPLAY)
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X,X,…", help="2: twice as fast as recorded.", rich_help_panel=_REPLAY)
    ] = "1",
    jitter: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            help="Spread each request over so many seconds, where times lie on a grid.",
            rich_help_panel=_REPLAY,
        ),
    ] = 0.0,
    shrink: Annotated[
        int, typer.Option(help="Divide blocks and outputs of a hashed trace by this.", rich_help_panel=_REPLAY)
    ] = 1,
) -> "LoadSettings":
    """Latency, throughput and goodput under load, with the prefix cache on and off."""
    from anaphora.lab.load.settings import LoadSettings

    return LoadSettings(
        concurrency=() if concurrency is None else parse_numbers(concurrency, "--concurrency", example="1,4,16"),
        rate=() if rate is None else parse_decimals(rate, "--rate", example="0.5,1,2"),
        duration_s=duration,
        warmup_s=warmup,
        num_requests=requests,
        rounds=rounds,
        slo=slo,
        processes=processes,
        timeout_s=request_timeout,
        prefix_tokens=prefix_tokens,
        num_prefixes=prefixes,
        unique_tokens=unique_tokens,
        output_tokens=output_tokens,
        trace=None if trace is None else str(trace),
        trace_format=trace_format,
        trace_block_size=trace_block_size,
        speed=parse_decimals(speed, "--speed", example="0.5,1,2"),
        jitter_s=jitter,
        shrink=shrink,
    )


def run_load(settings: list[Any], run: "RunOptions") -> None:
    """Measure what the settings ask."""
    from anaphora.lab.load.session import run_dry_load, run_load_session

    if run.compare is not None:
        raise ConfigError("--compare is for the other experiments: measure load on each, and read the two reports")
    if run.arms.value == "reset":
        raise ConfigError("--arms reset empties the cache between requests, not under many at once: use another --arms")
    if run.arms.value == "restart":
        raise ConfigError("--arms restart is for experiments that send one request at a time: use --arms flag")
    refuse_two_ways(run)
    if run.dry_run:
        run_dry_load(run.bench_options(), settings[0])
    else:
        run_load_session(run.bench_options(), settings[0], run.out, resumes=run.resume)
