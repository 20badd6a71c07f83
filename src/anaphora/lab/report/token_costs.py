"""The two-variable fit in words and tables."""

from collections.abc import Mapping
from typing import Any

from anaphora.lab.report.words import count, interval, ms
from anaphora.lab.token_costs import PRODUCT
from anaphora.report.tables import Table

_TERM_NAMES = {
    "fixed_ms": ("fixed", "ms"),
    "computed_ms_per_ktoken": ("computed", "ms / 1,000 tokens"),
    "cached_ms_per_ktoken": ("cached", "ms / 1,000 tokens"),
    "computed_squared_ms_per_ktoken2": ("computed²", "ms / (1,000 tokens)²"),
    PRODUCT: ("computed · cached", "ms / (1,000 tokens)²"),
}
NO_FIT = "the requests measured do not separate computed tokens from cached ones: no fit"


def costs_table(fit: Mapping[str, Any]) -> Table:
    """The terms with their intervals, and why the formula has these."""
    rows = [
        (name, f"{term['value']:,.2f}".replace("-", "−"), interval(term["interval"], 2), unit)
        for key, term in fit["terms"].items()
        for name, unit in [_TERM_NAMES[key]]
    ]
    columns = ("<term", "value", "interval at 95%", "<unit")
    return Table(f"Two variables: TTFT = {fit['formula']}", columns, tuple(rows), f"{_note(fit)}\n{_choice(fit)}")


def _choice(fit: Mapping[str, Any]) -> str:
    """Why computed times cached is a term or not, and what the formula without it would say."""
    shorter = fit["without_product"]
    if shorter is None:
        return "computed · cached is no term: these requests do not tell it apart from the others"
    cached, more = shorter["terms"]["cached_ms_per_ktoken"], shorter["aicc_more"]
    judged = (
        f"Akaike’s criterion is higher by {more:,.1f}: worse"
        if more > 0
        else f"Akaike’s criterion is lower by {-more:,.1f}: it would do as well"
    )
    quality = "" if shorter["r2"] is None else f"R² = {shorter['r2']:.4f}; "
    return (
        "computed · cached is what new tokens pay for looking at cached ones; it is a term because these requests tell "
        "it apart, whatever it comes to: choosing it by its looks makes the other intervals too short\n"
        f"without it: {quality}every 1,000 cached tokens {ms(cached['value'])} ms ({interval(cached['interval'])}); "
        f"{judged}"
    )


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
        f"({interval(cached['interval'])}), with intervals at 95%.{_product_sentence(terms.get(PRODUCT))}"
    )


def _product_sentence(term: Mapping[str, Any] | None) -> str:
    """What computed tokens pay for the cached ones before them, if that is a term."""
    if term is None:
        return ""
    bounds = term["interval"]
    if bounds is not None and bounds["low"] <= 0 <= bounds["high"]:
        return (
            f" What new tokens pay for looking at cached ones is lost in the noise: {ms(term['value'])} ms "
            f"({interval(bounds)}) for 1,000 computed behind 1,000 cached."
        )
    return (
        f" 1,000 tokens computed behind 1,000 cached ones pay {ms(term['value'])} ms ({interval(bounds)}) more for "
        "looking at these."
    )
