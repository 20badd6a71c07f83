"""A load run as a person sees it: progress, the tables, the report folder, and what remains after Ctrl-C."""

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from anaphora.errors import TraceError
from anaphora.lab.load.progress import LoadProgress
from anaphora.lab.load.records import RECORDS_FILE, read_load
from anaphora.lab.load.report import print_load, write_load
from anaphora.lab.load.run import run_load
from anaphora.lab.load.settings import LoadSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.report.languages import ENGLISH
from anaphora.lab.session import new_folder, run_stoppable


def run_load_session(options: BenchOptions, settings: LoadSettings, out: Path | None) -> dict[str, Any]:
    """Measure, write the report, print it; returns the results. Ctrl-C keeps what was measured and passes on."""
    folder = new_folder(settings.name, out, RECORDS_FILE)
    console, errors = Console(), Console(stderr=True)
    with LoadProgress(errors) as progress:
        if options.lang != ENGLISH.code:
            progress.note("prompts are in that language; the report of a load run is in English")
        try:
            run_stoppable(run_load(options, settings, folder, progress))
        except BaseException:
            progress.stop()
            errors.print(Text(_what_remains(folder)), soft_wrap=True)
            raise
        progress.note("drawing the report")
    results = write_load(folder)
    print_load(results, console)
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
    whole = sum(window.stopped is None for window in run.windows)
    return (
        f"stopped: {whole} of {len(run.header.stages)} stages, {len(run.requests)} requests are in {folder}; "
        f"`anaphora report {folder}` makes a report of them, `{run.header.settings['command']}` measures again"
    )
