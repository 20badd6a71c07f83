"""The same experiments on two targets, one after the other: both reports, and a page that holds them side by side."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from html import escape
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.errors import ConfigError
from anaphora.lab.comparison.compare import Comparison, compare, comparison_as_json
from anaphora.lab.comparison.overview import Results, side_by_side
from anaphora.lab.comparison.tables import NOTE, differences_tables
from anaphora.lab.options import BY_FLAG, OURS, BenchOptions
from anaphora.lab.report.languages import Language, language_of
from anaphora.lab.servers import endpoint_for, find_target
from anaphora.lab.session import new_folder, run_session, run_stoppable
from anaphora.report.language import table_in
from anaphora.report.page import document, html_table, section
from anaphora.report.tables import Table
from anaphora.report.terminal import print_table
from anaphora.traces.records import read_run

PAGE, DATA = "comparison.html", "comparison.json"


def run_pair(options: BenchOptions, other: str, out: Path | None) -> None:
    """Measure ``options.target``, then ``other`` (a profile or URL), into ``a`` and ``b`` of one folder; compare.

    Raises:
        ConfigError: before anything is measured, if one of the two cannot be meant.
        TargetError: the same if one of them does not answer.
    """
    second = replace(
        options,
        target=other,
        model=None,
        api_key_env=None,
        kind=None,
        launch=None,
        server_options=(),
        arms=_arms(options),
    )
    standing = [one for one in (options, second) if one.target != OURS]
    for one in standing:
        endpoint_for(one)
    for one in standing:
        run_stoppable(_expect_answers(one))
    folder = new_folder(f"{options.what}-pair", out)
    results = [run_session(options, folder / "a"), _second(second, folder)]
    found, why_not = _compare(folder, options.seed)
    table, language = side_by_side(*results), language_of(options.lang)
    (folder / DATA).write_text(_as_json(results, found, why_not), "utf-8")
    command = f"{options.command()} --compare {other}"
    (folder / PAGE).write_text(comparison_page(table, found, why_not, command, language), "utf-8")
    console = Console()
    print_table(table_in(table, language.say), console)
    if why_not:
        console.print(Text(f"! {language.say(why_not)}", style="yellow"), soft_wrap=True)
    console.print(Text(f"comparison: {folder / PAGE}"), soft_wrap=True)


async def _expect_answers(options: BenchOptions) -> None:
    """That the second target is not there must not be found out after the first was measured for minutes."""
    async with AsyncExitStack() as stack:
        errors = Console(stderr=True)
        await find_target(options, stack, lambda text: errors.print(Text(f"· {text}"), soft_wrap=True))


def _second(options: BenchOptions, folder: Path) -> Results:
    """Measure the second target. If it is cut short, the first one's records are still there to be compared with."""
    try:
        return run_session(options, folder / "b")
    except BaseException:
        here = f"{folder / 'a'} {folder / 'b'} --anyway"
        said = f"A was measured: {folder / 'a' / 'report.html'}; once B is complete, `anaphora compare {here}` compares"
        Console(stderr=True).print(Text(said), soft_wrap=True)
        raise


def _arms(options: BenchOptions) -> Any:
    """A flag or a reset is no way to switch a server that somebody else runs."""
    return "auto" if options.arms in (*BY_FLAG, "reset") else options.arms


def _compare(folder: Path, seed: int) -> tuple[Comparison | None, str]:
    """The figures that both runs have, or why there are none: other tokenizers make prompts of other lengths."""
    try:
        return compare(read_run(folder / "a"), read_run(folder / "b"), anyway=True, seed=seed), ""
    except ConfigError as error:
        return None, str(error)


def _as_json(results: Sequence[Results], found: Comparison | None, why_not: str) -> str:
    value = {
        "targets": [dict(one["target"]) for one in results],
        "comparison": None if found is None else comparison_as_json(found, ()),
        "not_compared": why_not or None,
    }
    return json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def comparison_page(table: Table, found: Comparison | None, why_not: str, command: str, language: Language) -> str:
    """The page that holds both runs side by side; ``why_not`` says why there is no comparison figure by figure."""
    say = language.say
    tables = differences_tables(found) if found is not None else ()
    details = "".join(html_table(table_in(one, say)) for one in tables)
    notes = "".join(f'<p class="note">{escape(say(line))}</p>' for line in NOTE.splitlines())
    remarks = (*found.remarks, *found.left_out) if found is not None else (why_not,)
    items = "".join(f"<li>{escape(say(text))}</li>" for text in remarks)
    reports = "".join(f'<li>{name.upper()}: <a href="{name}/report.html">{name}/report.html</a></li>' for name in "ab")
    sections = {
        "Side by side": html_table(table_in(replace(table, title=""), say)),
        "Figure by figure": f"{details}{notes}" if details else "",
        "What else differs": f"<ul>{items}</ul>" if items else "",
        "Whole reports": f"<ul>{reports}</ul>",
        "How to make this again": f"<pre><code>{escape(command)}</code></pre>",
    }
    models = [str(cell) for cell in table.rows[1][1:]]
    return document(
        say("Two targets, one experiment"),
        f"A: {models[0]} · B: {models[1]}",
        [section(say(title), body) for title, body in sections.items() if body],
        language=language.code,
    )
