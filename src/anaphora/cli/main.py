"""The command line: one verb, one module. Here they are joined, and here every error becomes one line.

A verb's module has a function ``register(app)``. Heavy imports belong inside its command: ``--help`` is instant.

Exit codes: 0 done; 1 a gate that failed (``compare --fail-if``, ``doctor``), or a bug, with its traceback; 2 a mistake
of the caller or the surroundings, told in one line; 130 interrupted.
"""

import errno
import gc
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import Annotated

import typer

from anaphora.errors import AnaphoraError

VERBS = (
    "serve",
    "fetch",
    "bench",
    "report",
    "fit",
    "compare",
    "calibrate",
    "doctor",
    "profile",
    "explain",
    "simulate",
    "plan",
)
USAGE_EXIT_CODE = 2
INTERRUPTED_EXIT_CODE = 130


def build_app(verbs: Sequence[str] = VERBS) -> typer.Typer:
    """The command line with these verbs registered."""
    app = typer.Typer(
        name="anaphora",
        help="Never compute the same beginning twice, and know why whenever you do.",
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_options_of_all_verbs)
    for verb in verbs:
        importlib.import_module(f"anaphora.cli.{verb}").register(app)
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point of the ``anaphora`` command; ends the process with one of the exit codes above."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Prompts may hold what no encoding has, and a terminal has fewer signs.
            stream.reconfigure(errors="backslashreplace")
    exit_code = run(sys.argv[1:] if argv is None else argv)
    gc.freeze()  # all memory goes with the process: nothing is left to search for cycles
    if exit_code == INTERRUPTED_EXIT_CODE and threading.active_count() > 1:
        _leave(exit_code)  # a thread may be in the middle of loading a library, which dies noisily with the interpreter
    sys.exit(exit_code)


def _leave(exit_code: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)


def run(argv: Sequence[str]) -> int:
    """Carry out one command line and return its exit code; what went wrong stands in one line on stderr."""
    named = [verb for verb in argv[:1] if verb in VERBS]
    app = build_app(named) if named else build_app()  # what the other verbs need would take long to load
    command = typer.main.get_command(app)
    try:
        result = command.main(list(argv) or ["--help"], prog_name="anaphora", standalone_mode=False)
    except typer.Exit as stop:
        return stop.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED_EXIT_CODE
    except (AnaphoraError, OSError) as error:
        is_full = isinstance(error, OSError) and error.errno == errno.ENOSPC
        return _fail(f"{error}: free some, or write to another disk" if is_full else str(error))
    except Exception as error:
        message = _usage_message(error, argv)
        if message is None:
            raise
        return _fail(message) if message else USAGE_EXIT_CODE  # a group without a command has shown its help
    return result if isinstance(result, int) else 0


def _print_version(wanted: bool) -> None:
    if wanted:
        from anaphora import __version__

        typer.echo(f"anaphora {__version__}")
        raise typer.Exit


def _options_of_all_verbs(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Nothing to do: ``--version`` acts by its callback."""


def _usage_message(error: Exception, argv: Sequence[str]) -> str | None:
    """The parser's complaint, or ``None`` if the error is none of the parser's.

    Typer brings its own copy of click from one release on: its errors are told by their method, not by their class.
    """
    format_message = getattr(error, "format_message", None)
    if format_message is None:
        return None
    for word in argv:
        if word.startswith("--") and " " in word.partition("=")[0]:
            option, _, value = word.partition(" ")
            return f"{word!r}: option and value came as one word; write {option} {value} without quotes around both"
    return str(format_message())


def _fail(message: str) -> int:
    line = " ".join(message.split())
    print(f"anaphora: error: {line}", file=sys.stderr)
    return USAGE_EXIT_CODE
