"""Where results go: made before the work begins, so that nobody waits for results that cannot be written."""

import os
from pathlib import Path

from anaphora.errors import ConfigError

_SIGNS = {
    "records.jsonl": "a run",
    "load.jsonl": "a run",
    "probe.json": "a probe",
    "comparison.html": "a comparison",
    "runs.csv": "a simulation",
}
"""What a folder holds, by a file that no other kind of result has. All of them write ``report.html`` and the like."""


def make_folder(folder: Path, *, replaces: str = "") -> None:
    """Make a folder for results, if it is not there. ``replaces``: the sign of results that may be written over.

    Raises:
        ConfigError: it cannot be made, nothing can be written into it, or it holds results of another command.
    """
    held = next((what for sign, what in _SIGNS.items() if sign != replaces and (folder / sign).exists()), None)
    if held is not None:
        raise ConfigError(f"{folder} holds {held} already: give another folder with --out")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder} ({error.strerror}): give another one with --out") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"the folder {folder} cannot be written to: give another one with --out")
