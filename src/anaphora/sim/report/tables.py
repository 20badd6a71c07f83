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

SAMPLE_NOTE = (
    "Rates are estimates for the whole trace, with one standard error; lru is exact. Counts, and the ledger, are of "
    "the sample."
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
    is_sample = results["sample"] is not None
    rows = [
        (
            run["policy"],
            capacity(run),
            *(() if is_sample else (f"{run['cached_tokens']:,}",)),
            *(_rate(run, name) for name in RATES),
        )
        for run in results["runs"]
    ]
    columns = ("<policy", "capacity", *(() if is_sample else ("cached tokens",)), *RATES.values())
    note = RULES_NOTE if not is_sample else f"{RULES_NOTE}\n{SAMPLE_NOTE}"
    return Table("Hit rates, in % of prompt tokens and blocks", columns, tuple(rows), note)


def _rate(run: Mapping[str, Any], name: str) -> str:
    """In %, with the expected error of an estimate."""
    text = f"{100 * run[name]:.2f}"
    if f"{name}_error" not in run:
        return text
    error = run[f"{name}_error"]
    return f"{text}±{'?' if error is None else f'{100 * error:.2f}'}"


def ledgers(results: Mapping[str, Any]) -> Table:
    """A row a run, a column a class."""
    reasons = reasons_of(results)
    rows = [
        (run["policy"], capacity(run), *(f"{100 * run['ledger'][r] / run['prompt_tokens']:.2f}" for r in reasons))
        for run in results["runs"]
    ]
    return Table("Where the prompt tokens went, in %", ("<policy", "capacity", *reasons), tuple(rows))
