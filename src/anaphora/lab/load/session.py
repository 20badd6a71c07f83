"""A load run as a person sees it: progress, the tables, the report folder, and what remains after Ctrl-C."""

import asyncio
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.errors import ConfigError, TraceError
from anaphora.lab.load.dry_run import dry_run
from anaphora.lab.load.progress import LoadProgress
from anaphora.lab.load.record_file import RECORDS_FILE, read_load
from anaphora.lab.load.report import print_load, write_load
from anaphora.lab.load.resume import read_unfinished, unfinished_stages
from anaphora.lab.load.run import run_load
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.report.languages import language_of
from anaphora.lab.session import new_folder, run_stoppable
from anaphora.report.language import table_in
from anaphora.report.terminal import print_table


def run_dry_load(options: BenchOptions, settings: LoadSettings) -> None:
    """Print what the run would send."""
    say, errors = language_of(options.lang).say, Console(stderr=True)
    table = asyncio.run(dry_run(options, settings, lambda text: errors.print(Text(f"· {text}"), soft_wrap=True)))
    print_table(table_in(table, say), Console())


def run_load_session(
    options: BenchOptions, settings: LoadSettings, out: Path | None, *, resumes: Path | None = None
) -> dict[str, Any]:
    """Measure, write the report, print it; returns the results. Ctrl-C keeps what was measured and passes on.

    ``resumes``: the folder of a run that was cut short, which goes on.
    """
    if resumes is not None and out is not None:
        raise ConfigError("--resume says which folder: leave out --out")
    language = language_of(options.lang)
    resumed = None if resumes is None else read_unfinished(resumes)
    folder = resumes or new_folder(settings.name, out)
    console, errors = Console(), Console(stderr=True)
    with LoadProgress(errors) as progress:
        try:
            run_stoppable(run_load(options, settings, folder, progress, resumed=resumed))
        except BaseException as error:
            progress.stop()
            if resumed is None or not isinstance(error, ConfigError):  # a run that is not gone on with stays as it was
                errors.print(Text(_what_remains(folder)), soft_wrap=True)
            raise
        progress.note("drawing the report")
    results = write_load(folder, language)
    print_load(results, console, language)
    console.print(Text(f"report: {folder / 'report.html'}"), soft_wrap=True)
    return results


def _what_remains(folder: Path) -> str:
    """What a run that was cut short has left, and what to do with it. An empty folder is taken away."""
    try:
        run = read_load(folder)
    except TraceError:
        (folder / RECORDS_FILE).unlink(missing_ok=True)
        if any(folder.iterdir()):
            return f"nothing was measured; what the server said is in {folder}"
        folder.rmdir()
        return "nothing was measured"
    planned = len(run.header.stages)
    return (
        f"stopped: {planned - len(unfinished_stages(run))} of {planned} stages, {len(run.requests)} requests are in "
        f"{folder}; `anaphora report {folder}` makes a report of them, "
        f"`{run.header.settings['command']} --resume {folder}` goes on"
    )
