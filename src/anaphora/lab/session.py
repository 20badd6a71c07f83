"""A run as a person sees it: progress, the tables, the report folder, and what remains after Ctrl-C."""

import asyncio
import datetime
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.errors import ConfigError, TraceError
from anaphora.lab.bench import run_bench
from anaphora.lab.dry_run import dry_run
from anaphora.lab.options import BenchOptions
from anaphora.lab.progress import Progress
from anaphora.lab.report import write_report
from anaphora.lab.report.languages import language_of
from anaphora.lab.report.terminal import print_report
from anaphora.lab.resume import read_unfinished
from anaphora.report.language import table_in
from anaphora.report.output_folder import make_folder
from anaphora.report.terminal import print_table
from anaphora.traces.records import RECORDS_FILE, read_run


def run_dry(options: BenchOptions) -> None:
    """Print what the run would send."""
    say, errors = language_of(options.lang).say, Console(stderr=True)
    table = asyncio.run(dry_run(options, lambda text: errors.print(Text(f"· {text}"), soft_wrap=True)))
    print_table(table_in(table, say), Console())


def run_session(options: BenchOptions, out: Path | None, *, resumes: Path | None = None) -> dict[str, Any]:
    """Measure, write the report, print it; returns the results. Ctrl-C keeps what was measured and passes on.

    ``resumes``: the folder of a run that was cut short, which goes on.
    """
    if resumes is not None and out is not None:
        raise ConfigError("--resume says which folder: leave out --out")
    resumed = None if resumes is None else read_unfinished(resumes)
    folder = resumes or new_folder(options.what, out)
    console, errors = Console(), Console(stderr=True)
    with Progress(errors) as progress:
        try:
            run_stoppable(run_bench(options, folder, progress, resumed=resumed))
        except BaseException as error:
            progress.stop()
            if resumed is None or not isinstance(error, ConfigError):  # a run that is not gone on with stays as it was
                errors.print(Text(_what_remains(folder)), soft_wrap=True)
            raise
        progress.note("drawing the report")
    language = language_of(options.lang)
    results = write_report(folder, language)
    print_report(results, console, language)
    console.print(Text(f"report: {folder / 'report.html'}"), soft_wrap=True)
    return results


def run_stoppable(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end. SIGTERM ends it like Ctrl-C does, so that it leaves no server behind either."""

    async def stoppable() -> None:
        task = asyncio.current_task()
        assert task is not None
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        try:
            await work
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None

    asyncio.run(stoppable())


def new_folder(what: str, out: Path | None) -> Path:
    """The folder of a run, made if need be. Raises :class:`ConfigError` if it holds results already."""
    now = datetime.datetime.now().astimezone()
    folder = out or Path("reports") / f"{now:%Y%m%d-%H%M%S}-{what}"
    make_folder(folder)
    return folder


def _what_remains(folder: Path) -> str:
    """What a run that was cut short has left, and what to do with it. An empty folder is taken away."""
    try:
        run = read_run(folder)
    except TraceError:
        (folder / RECORDS_FILE).unlink(missing_ok=True)
        return (
            f"nothing was measured; what the server said is in {folder}" if any(folder.iterdir()) else _remove(folder)
        )
    measured = sum(record.phase != "warmup" for record in run.requests)
    return (
        f"stopped: {measured} of {run.header.num_planned_requests} requests are in {folder}; "
        f"`anaphora report {folder}` makes a report of them, "
        f"`{run.header.settings['command']} --resume {folder}` goes on"
    )


def _remove(folder: Path) -> str:
    folder.rmdir()
    return "nothing was measured"
