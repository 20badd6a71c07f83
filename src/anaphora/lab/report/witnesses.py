"""The three witnesses of a hit on the page: rates, sums of each arm with the classes of their gaps, and every request
on which they part."""

from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.lab.report.hit_rates import WITNESS_NAMES
from anaphora.lab.report.words import UNKNOWN, percent
from anaphora.report.tables import Table

EXPLANATION = (
    "Share of prompt tokens that came from the prefix cache in the on arm, as three sources tell it: the answers’ own "
    "<code>usage</code>, the growth of the server’s counters around each request, and what the same cache arithmetic "
    "predicted from the tokenised prompts before anything was sent.",
    "“unknown” means that a source is silent; it is not 0.",
)
_SHOWN = 200


def rates_table(results: Mapping[str, Any]) -> Table:
    """Hit rates by experiment and witness."""
    rows = [
        (name, WITNESS_NAMES[witness], percent(all_of_them[witness]), percent(later[witness]))
        for name, experiment in results["experiments"].items()
        for all_of_them, later in [(experiment["hit_rate_percent"], experiment["hit_rate_percent_after_first"])]
        for witness in WITNESS_NAMES
    ]
    return Table(
        "", ("<experiment", "<witness", "hit rate, all on-requests", "without those that fill the cache"), tuple(rows)
    )


def arms_table(results: Mapping[str, Any]) -> Table:
    """Cached tokens by arm as each witness counts them, and what explains their gaps."""
    rows = [
        (
            one["experiment"],
            one["arm"],
            *(share_of_tokens(one[witness]) for witness in WITNESS_NAMES),
            "; ".join(f"{count} × {gap}" for gap, count in one["gaps"].items()) or "they agree",
        )
        for one in results["witnesses"]["arms"]
    ]
    columns = ("<experiment", "<arm", "usage", "metrics", "predicted", "<what explains the gaps")
    return Table("Cached tokens by arm", columns, tuple(rows))


def disagreements_table(results: Mapping[str, Any]) -> Table:
    """Request by request, the first of them; ``results.json`` has all."""
    found = results["witnesses"]["disagreements"]
    rows = [
        (
            f"{one['experiment']} {one['group']}",
            one["arm"],
            str(one["index"]),
            *(UNKNOWN if one[witness] is None else f"{one[witness]:g}" for witness in WITNESS_NAMES),
            one["gap"],
        )
        for one in found[:_SHOWN]
    ]
    columns = ("<experiment", "<arm", "request", "usage", "metrics", "predicted", "<what explains it")
    more = len(found) - len(rows)
    note = f"{more} more are in results.json" if more else ""
    return Table("Where the witnesses part, request by request", columns, tuple(rows), note)


def share_of_tokens(share: Sequence[float] | None) -> str:
    """Cached tokens of so many, as one witness tells it."""
    return UNKNOWN if share is None else f"{share[0]:,.0f} of {share[1]:,.0f}"
