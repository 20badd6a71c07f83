"""The second level of `anaphora simulate`: its options, where step durations come from, and the runs in time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaphora.cli.progress_bar import progress_bar
from anaphora.errors import ConfigError

if TYPE_CHECKING:
    from anaphora.sim.latency import LatencyModel
    from anaphora.sim.latency_fit import LatencyFit
    from anaphora.sim.prompt_blocks import PromptBlocks
    from anaphora.sim.sweep import RunPlan
    from anaphora.sim.timed_sweep import ServerLimits
    from anaphora.traces.request import ServedBy

_PANEL = "First-token times"
LatencyOption = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="PATH",
        help="How long steps take: a report folder of `anaphora bench` (several may be given), or a JSON file of "
        "coefficients.",
        rich_help_panel=_PANEL,
    ),
]
RateScaleOption = Annotated[
    float | None,
    typer.Option(metavar="X", help="Requests come X times as fast as in the trace.", rich_help_panel=_PANEL),
]
MaxNumSeqsOption = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="Requests that run at the same time. Default: as a request log's server, or 256.",
        rich_help_panel=_PANEL,
    ),
]
MaxNumBatchedTokensOption = Annotated[
    int | None,
    typer.Option(
        min=1, help="Token budget of one step. Default: as a request log's server, or 2048.", rich_help_panel=_PANEL
    ),
]
TargetPrefillTokensOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Nobody joins a step that computes so many prompt tokens. 0: any may, as on most servers but ours. "
        "Default: as a request log's server, or 512.",
        rich_help_panel=_PANEL,
    ),
]

MEASURED_TOKEN_BUDGET = 2048
"""Of the servers that reports are about: what they do not say is taken to be the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedServer:
    """The server to simulate; ``fit`` is ``None`` where the coefficients were given, a limit where it was not."""

    model: "LatencyModel"
    fit: "LatencyFit | None"
    sources: tuple[str, ...]
    rate_scale: float
    max_num_seqs: int | None
    max_num_batched_tokens: int | None
    target_prefill_tokens: int | None

    def limits(self, served_by: "ServedBy | None") -> "ServerLimits":
        """What is not given is as on the server that wrote the trace, or the default."""
        from anaphora.sim.timed_sweep import ServerLimits

        usual = served_by or ServerLimits()
        target = self.target_prefill_tokens
        return ServerLimits(
            max_num_seqs=self.max_num_seqs or usual.max_num_seqs,
            max_num_batched_tokens=self.max_num_batched_tokens or usual.max_num_batched_tokens,
            target_prefill_tokens=usual.target_prefill_tokens if target is None else target,
        )


def server_of(
    paths: Sequence[Path] | None,
    *,
    rate_scale: float | None,
    max_num_seqs: int | None,
    max_num_batched_tokens: int | None,
    target_prefill_tokens: int | None,
    is_sample: bool,
) -> TimedServer | None:
    """What the options say; ``None`` if nothing is to be simulated in time.

    Raises:
        ConfigError: options do not go together, or say nothing of how long steps take.
        TraceError: a report cannot be read.
    """
    if not paths:
        given = {
            "rate_scale": rate_scale,
            "max_num_seqs": max_num_seqs,
            "max_num_batched_tokens": max_num_batched_tokens,
            "target_prefill_tokens": target_prefill_tokens,
        }
        idle = [name for name, value in given.items() if value is not None]
        if idle:
            option = "--" + idle[0].replace("_", "-")
            raise ConfigError(f"{option} is about first-token times, which need --latency: give it, or leave that out")
        return None
    if is_sample:
        raise ConfigError("--sample leaves out requests that others would wait for: with --latency use --first N")
    model, fit = _latency_of(paths)
    return TimedServer(
        model=model,
        fit=fit,
        sources=tuple(map(str, paths)),
        rate_scale=1.0 if rate_scale is None else rate_scale,
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        target_prefill_tokens=target_prefill_tokens,
    )


def _latency_of(paths: Sequence[Path]) -> "tuple[LatencyModel, LatencyFit | None]":
    """Coefficients from one file, or fitted to the records of all reports."""
    from anaphora.lab.step_durations import observations_of
    from anaphora.sim.latency import read_latency_file
    from anaphora.sim.latency_fit import fit_latency
    from anaphora.traces.records import read_run

    if any(path.suffix == ".json" and not path.is_dir() for path in paths):
        if len(paths) > 1:
            raise ConfigError("a file of coefficients says everything: give --latency once, or report folders only")
        return read_latency_file(paths[0]), None
    runs = [read_run(path) for path in paths]
    fit = fit_latency([one for run in runs for one in observations_of(run, token_budget=MEASURED_TOKEN_BUDGET)])
    return fit.model, fit


def timed(
    results: Mapping[str, Any],
    prompts: "Sequence[PromptBlocks]",
    plans: "Sequence[RunPlan]",
    server: TimedServer,
    *,
    served_by: "ServedBy | None",
    num_jobs: int,
) -> dict[str, Any]:
    """``results`` with ``latency``, and with a ``timing`` in each run: ``on``, and ``off`` without a prefix cache.

    Belady's bound has no timing.
    """
    from anaphora.sim.sweep import BELADY
    from anaphora.sim.timed_sweep import TimedPlan, TimedSweep, num_distinct

    limits = server.limits(served_by)
    sweep = TimedSweep(prompts, server.model, limits, rate_scale=server.rate_scale)
    wanted = [TimedPlan(plan, caching) for plan in plans if plan.policy != BELADY for caching in (True, False)]
    total = sweep.num_requests_per_run * num_distinct(wanted)
    with progress_bar("serving", total) as advance:
        timings = sweep.run_all(wanted, advance, num_jobs=num_jobs)
    runs = [
        {**run, "timing": None if plan.policy == BELADY else _arms(timings, plan)}
        for run, plan in zip(results["runs"], plans, strict=True)
    ]
    latency = {**_latency_json(server, limits), "requests_of_unknown_output": sweep.num_without_output}
    return {**results, "latency": latency, "runs": runs}


def _arms(timings: Mapping[Any, dict[str, Any]], plan: "RunPlan") -> dict[str, dict[str, Any]]:
    from anaphora.sim.timed_sweep import TimedPlan

    return {"on": timings[TimedPlan(plan, True)], "off": timings[TimedPlan(plan, False)]}


def _latency_json(server: TimedServer, limits: "ServerLimits") -> dict[str, Any]:
    """Where the times come from."""
    return {
        "sources": list(server.sources),
        "coefficients": server.model.to_json(),
        "fit": None if server.fit is None else server.fit.to_json(),
        "max_num_seqs": limits.max_num_seqs,
        "max_num_batched_tokens": limits.max_num_batched_tokens,
        "target_prefill_tokens": limits.target_prefill_tokens,
        "rate_scale": server.rate_scale,
    }
