"""Figures of `anaphora simulate`, and one page that holds them with the table: no scripts, nothing from outside."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from anaphora.lab.report.figures import GRID, INK, inline_svg, save
from anaphora.lab.report.style import STYLE

# Hues that stay apart for every common colour blindness (Okabe and Ito).
_HUES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#f0e442", "#999999", "#000000")


def write_page(results: Mapping[str, Any], folder: Path) -> None:
    """``figure-hit-rate``, ``figure-ledger`` (PNG and SVG) and ``report.html`` into a folder."""
    drawn = {"figure-hit-rate": _hit_rates(results), "figure-ledger": _ledgers(results)}
    for name, figure in drawn.items():
        save(figure, folder / name)
    figures = "".join(f"<figure>{inline_svg(figure)}</figure>" for figure in drawn.values())
    title = f"Simulated prefix caches: {escape(Path(results['trace']['path']).name)}"
    remarks = "".join(f"<li>{escape(remark)}</li>" for remark in results["trace"]["remarks"])
    html = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{STYLE}\nfigure {{ background: #ffffff; }}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{title}</h1></header>\n<ul>{remarks}</ul>\n{figures}\n{_table(results)}\n</main>\n</body>\n</html>\n"
    )
    (folder / "report.html").write_text(html, "utf-8")


def _hit_rates(results: Mapping[str, Any]) -> Figure:
    """One line a policy; the unbounded cache as a level."""
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    axes = figure.add_subplot()
    policies = list(dict.fromkeys(run["policy"] for run in results["runs"]))
    for policy, hue in zip(policies, _cycle(len(policies)), strict=True):
        runs = [run for run in results["runs"] if run["policy"] == policy]
        bounded = sorted(
            (run["capacity_blocks"], 100 * run["token_hit_rate"]) for run in runs if run["capacity_blocks"]
        )
        style = "--" if policy == "belady" else "-"
        axes.plot([x for x, _ in bounded], [y for _, y in bounded], style, marker="o", color=hue, label=policy)
    for run in results["runs"]:
        if run["capacity_blocks"] is None:
            axes.axhline(100 * run["token_hit_rate"], color=INK, linewidth=0.8, linestyle=":")
    axes.set_title("Prompt tokens from the cache; dotted: without bounds")
    axes.set_xlabel(f"capacity, blocks of {results['runs'][0]['block_size']} tokens")
    axes.set_ylabel("token hit rate, %")
    axes.set_ylim(bottom=0)
    axes.grid(color=GRID)
    axes.legend(frameon=False)
    return figure


def _ledgers(results: Mapping[str, Any]) -> Figure:
    """A bar a run, its tokens by reason."""
    runs = results["runs"]
    figure = Figure(figsize=(8, 1.6 + 0.34 * len(runs)), layout="constrained")
    axes = figure.add_subplot()
    names = [f"{run['policy']}, {run['capacity_blocks'] or 'inf'}" for run in runs]
    places, left = list(range(len(runs))), [0.0] * len(runs)
    reasons = [reason for reason in runs[0]["ledger"] if any(run["ledger"][reason] for run in runs)]
    for reason, hue in zip(reasons, _cycle(len(reasons)), strict=True):
        widths = [100 * run["ledger"][reason] / run["prompt_tokens"] for run in runs]
        axes.barh(places, widths, left=left, color=hue, label=reason)
        left = [start + width for start, width in zip(left, widths, strict=True)]
    axes.set_yticks(places, names)
    axes.invert_yaxis()
    axes.set_title("Where the prompt tokens went")
    axes.set_xlabel("% of prompt tokens")
    axes.set_xlim(0, 100)
    figure.legend(ncols=4, loc="outside lower center", frameon=False)
    return figure


def _cycle(count: int) -> list[str]:
    return [_HUES[number % len(_HUES)] for number in range(count)]


def _table(results: Mapping[str, Any]) -> str:
    rates = [f"{rule}{unit}_hit_rate" for rule in ("", "trace_rule_") for unit in ("token", "block")]
    columns = ["policy", "capacity_blocks", *rates]
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in columns)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(run[name])}</td>" for name in columns) + "</tr>" for run in results["runs"]
    )
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>'


def _cell(value: Any) -> str:
    if value is None:
        return "inf"
    return f"{100 * value:.2f} %" if isinstance(value, float) else escape(str(value))
