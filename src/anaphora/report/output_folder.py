"""Where results go: made before the work begins, so that nobody waits for results that cannot be written."""

import os
from pathlib import Path

from anaphora.errors import ConfigError


def make_folder(folder: Path) -> None:
    """Make a folder for results, if it is not there.

    Raises:
        ConfigError: it cannot be made, or nothing can be written into it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot make the folder {folder} ({error.strerror}): give another one with --out") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise ConfigError(f"the folder {folder} cannot be written to: give another one with --out")
