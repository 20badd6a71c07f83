"""The two-variable fit in words and tables."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report.words import count, interval, ms
from anaphora.report.tables import Table

_TERM_NAMES = {
    "fixed_ms": ("fixed", "ms"),
    "computed_ms_per_ktoken": ("computed", "ms / 1,000 tokens"),
    "cached_ms_per_ktoken": ("cached", "ms / 1,000 tokens"),
    "computed_squared_ms_per_ktoken2": ("computed²", "ms / (1,000 tokens)²"),
}
NO_FIT = "the requests measured do not separate computed tokens from cached ones: no fit"


def costs_table(fit: Mapping[str, Any]) -> Table:
    """The four terms with their intervals; and that of a fifth, which is in none of them, where it was tried."""
    rows = [
        (name, f"{term['value']:,.2f}".replace("-", "−"), interval(term["interval"], 2), unit)
        for key, (name, unit) in _TERM_NAMES.items()
        for term in [fit["terms"][key]]
    ]
    product = fit.get("product_ms_per_ktoken2")
    if product is not None:
        middle = f"{(product['low'] + product['high']) / 2:,.2f}".replace("-", "−")
        rows.append(("computed · cached, if added", middle, interval(product, 2), "ms / (1,000 tokens)²"))
    columns = ("<term", "value", "interval at 95%", "<unit")
    title = "Two variables: TTFT = fixed + a · computed + b · cached + c · computed²"
    return Table(title, columns, tuple(rows), _note(fit))


def residuals_table(fit: Mapping[str, Any]) -> Table:
    """What the formula leaves unexplained, by kind of request."""
    rows = [
        (
            cell["cell"],
            count(cell["computed_tokens"]),
            count(cell["cached_tokens"]),
            str(cell["num_requests"]),
            ms(cell["ttft_ms"]),
            f"{cell['residual_ms']:+,.1f}".replace("-", "−"),
        )
        for cell in fit["cells"]
    ]
    columns = ("<cached + new, aimed at", "computed", "cached", "requests", "median TTFT (ms)", "median residual (ms)")
    note = "residual: measured minus fitted; residuals that keep one sign say that the formula is too simple there"
    return Table("What the formula leaves unexplained", columns, tuple(rows), note)


def _note(fit: Mapping[str, Any]) -> str:
    (least, most), (few, many) = fit["computed_tokens_range"], fit["cached_tokens_range"]
    quality = "" if fit["r2"] is None else f"R² = {fit['r2']:.4f} over {fit['num_points']} requests; "
    noise = {0.0: "constant", 1.0: "in proportion to the time"}.get(
        fit["noise_power"], f"growing as the time to the power of {fit['noise_power']:g}"
    )
    strays = (
        f"; {fit['num_strays']} requests that took far longer than their like are left out" if fit["num_strays"] else ""
    )
    return (
        f"{quality}the noise was taken to be {noise}; nothing is said beyond {least:,.0f} to {most:,.0f} computed and "
        f"{few:,.0f} to {many:,.0f} cached tokens{strays}"
    )


def costs_sentence(fit: Mapping[str, Any]) -> str:
    """What a token costs, with intervals."""
    terms = fit["terms"]
    computed, cached, fixed = (terms[name] for name in ("computed_ms_per_ktoken", "cached_ms_per_ktoken", "fixed_ms"))
    if computed["interval"] is not None and computed["interval"]["low"] <= 0:
        told = f"{ms(computed['value'])} ms ({interval(computed['interval'])} at 95%)"
        return f"What a computed prompt token costs is lost in the noise: every 1,000 of them {told}."
    squared = terms["computed_squared_ms_per_ktoken2"]["value"]
    sign = "plus" if squared > 0 else "minus"
    bent = f" {sign} {ms(abs(squared))} ms times the square of these thousands" if abs(squared) >= 0.05 else ""
    return (
        f"A request costs {ms(fixed['value'])} ms, every 1,000 computed prompt tokens {ms(computed['value'])} ms "
        f"({interval(computed['interval'])}){bent}, and every 1,000 cached ones {ms(cached['value'])} ms "
        f"({interval(cached['interval'])}), with intervals at 95%."
    )
