"""A simulation on the terminal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anaphora.sim.report.tables import tables_of
from anaphora.sim.report.timing import timing_remarks
from anaphora.sim.report.words import count

if TYPE_CHECKING:
    from rich.console import Console


def print_simulation(results: Mapping[str, Any], console: "Console") -> None:
    """What was read, what is to be doubted, and every table."""
    from rich.text import Text

    from anaphora.report.terminal import print_table

    console.print(Text(headline(results), style="bold"))
    for line in sample_lines(results):
        console.print(Text(line))
    for remark in remarks(results):
        console.print(Text(f"! {remark}", style="yellow"))
    console.print()
    for table in tables_of(results):
        print_table(table, console)


def headline(results: Mapping[str, Any]) -> str:
    """The trace in one line."""
    trace = results["trace"]
    size = f", block ids for {trace['block_size']} tokens" if trace["block_size"] else ""
    head = f"{Path(trace['path']).name}: {count(trace['requests'], 'request')} ({trace['format']}{size}), "
    return (
        f"{head}{count(trace['distinct_blocks'], 'distinct block')} of {results['runs'][0]['block_size']}"
        f"{_as_served(trace)}"
    )


def _as_served(trace: Mapping[str, Any]) -> str:
    """What the server measured that wrote the trace, if one did."""
    served = trace["served_by"]
    if served is None or not served["prompt_tokens"]:
        return ""
    return (
        f"; served with {count(served['num_blocks'], 'block')}, policy {served['eviction_policy']}: "
        f"{100 * served['cached_tokens'] / served['prompt_tokens']:.2f} % of prompt tokens from the cache"
    )


def sample_lines(results: Mapping[str, Any]) -> Iterator[str]:
    """What was replayed instead of all, if it was not all."""
    drawn = results["sample"]
    if drawn is not None:
        yield (
            f"sample: {count(drawn['requests'], 'request')}, chosen by the first "
            f"{count(drawn['group_depth_blocks'], 'block')} ({count(drawn['groups'], 'group')}), "
            f"with {100 * drawn['capacity_scale']:.2f}% of the distinct blocks"
        )
        yield (
            "LRU of the whole trace is known from reuse distances; the sample tells how far another policy is from it, "
            "in caches where LRU does as well on the sample as on the whole. ± is one standard error."
        )


def remarks(results: Mapping[str, Any]) -> Iterator[str]:
    """What was strange about the trace, and where a run differs from an engine."""
    yield from results["trace"]["remarks"]
    oversized = {run["capacity_blocks"]: run["oversized_requests"] for run in results["runs"]}
    for num_blocks, num_requests in oversized.items():
        if num_requests:
            yield (
                f"longer than a cache of {count(num_blocks, 'block')}: {count(num_requests, 'prompt')}; an engine "
                "would refuse what is longer than its cache, here the beginning was cached"
            )
    yield from timing_remarks(results)
