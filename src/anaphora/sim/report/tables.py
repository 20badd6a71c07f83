"""The tables of a simulation as rows of text, for the terminal and for the page alike."""

from collections.abc import Mapping
from typing import Any

from anaphora.report.tables import Table
from anaphora.sim.report.labels import capacity
from anaphora.sim.report.timing import timing_tables

RATES = {
    "token_hit_rate": "tokens",
    "block_hit_rate": "blocks",
    "trace_rule_token_hit_rate": "tokens, trace rule",
    "trace_rule_block_hit_rate": "blocks, trace rule",
}
RULES_NOTE = (
    "Engine's rule: full blocks only, and the last token is computed. Trace rule, as in published figures: partial "
    "last blocks and wholly cached prompts count."
)


def tables_of(results: Mapping[str, Any]) -> list[Table]:
    """Every table of a simulation, in reading order."""
    return [hit_rates(results), ledgers(results), *timing_tables(results)]


def reasons_of(results: Mapping[str, Any]) -> list[str]:
    """The ledger's classes that any run has tokens in, in the ledger's order."""
    runs = results["runs"]
    return [reason for reason in runs[0]["ledger"] if any(run["ledger"][reason] for run in runs)]


def hit_rates(results: Mapping[str, Any]) -> Table:
    """A row a run, by both rules."""
    rows = [
        (
            run["policy"],
            capacity(run),
            f"{run['cached_tokens']:,}",
            *(f"{100 * run[name]:.2f}" for name in RATES),
        )
        for run in results["runs"]
    ]
    columns = ("<policy", "capacity", "cached tokens", *RATES.values())
    return Table("Hit rates, in % of prompt tokens and blocks", columns, tuple(rows), RULES_NOTE)


def ledgers(results: Mapping[str, Any]) -> Table:
    """A row a run, a column a class."""
    reasons = reasons_of(results)
    rows = [
        (run["policy"], capacity(run), *(f"{100 * run['ledger'][r] / run['prompt_tokens']:.2f}" for r in reasons))
        for run in results["runs"]
    ]
    return Table("Where the prompt tokens went, in %", ("<policy", "capacity", *reasons), tuple(rows))
