"""Results of `anaphora simulate` as an object, as files and as tables."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

    from anaphora.sim.sampling import Sample
    from anaphora.sim.sweep import SimulatedRun, Sweep
    from anaphora.traces.request import Trace


def results_of(
    trace: "Trace", sweep: "Sweep", runs: Sequence["SimulatedRun"], drawn: "Sample | None"
) -> dict[str, Any]:
    """Everything that is printed or written, for machines. ``drawn``: the sample that was replayed, if not all."""
    return {
        "trace": {
            "path": str(trace.path),
            "format": trace.format,
            "block_size": trace.block_size,
            "rows": trace.num_rows,
            "requests": len(trace.requests),
            "distinct_blocks": sweep.working_set,
            "findings": [
                {
                    "kind": finding.kind.value,
                    "count": finding.count,
                    "lines": list(finding.lines),
                    "skips_rows": finding.skips_rows,
                    "detail": finding.detail,
                }
                for finding in trace.findings
            ],
            "remarks": [str(finding) for finding in trace.findings],
        },
        "sample": None
        if drawn is None
        else {
            "requests": len(drawn.prompts),
            "groups": drawn.num_groups,
            "group_depth_blocks": drawn.depth,
            "capacity_scale": drawn.scale,
        },
        "runs": [run.to_json() for run in runs],
    }


def write_simulation(results: Mapping[str, Any], folder: Path) -> None:
    """``results.json`` and ``runs.csv`` (one row a run, the ledger in columns of its own) into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(results, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "results.json").write_text(text + "\n", "utf-8")
    with (folder / "runs.csv").open("w", encoding="utf-8", newline="") as file:
        rows = [_flat(run) for run in results["runs"]]
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _flat(run: Mapping[str, Any]) -> dict[str, Any]:
    """An unbounded capacity is an empty cell."""
    plain = {name: "" if value is None else value for name, value in run.items() if name != "ledger"}
    return plain | {f"ledger_{reason}": count for reason, count in run["ledger"].items()}


def print_simulation(results: Mapping[str, Any], console: "Console") -> None:
    """What was read, hit rates by both rules, and where the tokens went."""
    from rich.text import Text

    trace, runs = results["trace"], results["runs"]
    size = f", block ids for {trace['block_size']} tokens" if trace["block_size"] else ""
    head = f"{Path(trace['path']).name}: {trace['requests']:,} requests ({trace['format']}{size}), "
    console.print(Text(f"{head}{trace['distinct_blocks']:,} distinct blocks of {runs[0]['block_size']}", style="bold"))
    if results["sample"] is not None:
        drawn = results["sample"]
        console.print(
            f"sample: {drawn['requests']:,} requests, chosen by their first {drawn['group_depth_blocks']} blocks "
            f"({drawn['groups']:,} groups), in caches of {drawn['capacity_scale']:.4f} of their size"
        )
    for remark in trace["remarks"]:
        console.print(Text(f"! {remark}", style="yellow"))
    for run in runs:
        if run["oversized_requests"]:
            console.print(
                Text(
                    f"! {run['oversized_requests']} prompts are longer than the {run['capacity_blocks']:,} blocks of "
                    f"{run['policy']}: an engine would refuse them; here their beginning was cached",
                    style="yellow",
                )
            )
    _print_table(
        console,
        "Hit rates, in % of prompt tokens and blocks",
        ("policy", "capacity", "cached tokens", "tokens", "blocks", "tokens, trace rule", "blocks, trace rule"),
        [
            (
                run["policy"],
                _capacity(run),
                f"{run['cached_tokens']:,}",
                *(
                    f"{100 * run[name]:.2f}"
                    for name in (
                        "token_hit_rate",
                        "block_hit_rate",
                        "trace_rule_token_hit_rate",
                        "trace_rule_block_hit_rate",
                    )
                ),
            )
            for run in runs
        ],
        "Engine's rule: full blocks only, and the last token is computed. Trace rule, as in published figures: partial "
        "last blocks and wholly cached prompts count.",
    )
    reasons = [reason for reason in runs[0]["ledger"] if any(run["ledger"][reason] for run in runs)]
    _print_table(
        console,
        "Where the prompt tokens went, in %",
        ("policy", "capacity", *reasons),
        [
            (run["policy"], _capacity(run), *(f"{100 * run['ledger'][r] / run['prompt_tokens']:.2f}" for r in reasons))
            for run in runs
        ],
        "",
    )


def _capacity(run: Mapping[str, Any]) -> str:
    return "inf" if run["capacity_blocks"] is None else f"{run['capacity_blocks']:,}"


def _print_table(
    console: "Console", title: str, columns: Sequence[str], rows: Sequence[Sequence[str]], note: str
) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, name in enumerate(columns):
        table.add_column(Text(name), justify="right" if number else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print()
    console.print(Text(title, style="bold"))
    console.print(table)
    if note:
        console.print(Text(note, style="dim"))
