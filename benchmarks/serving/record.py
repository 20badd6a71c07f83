"""What the programs of this folder that need no server keep of a run: where it was, and what was found."""

import argparse
import json
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anaphora.lab import environment


def keep(module: str, doc: str | None, rounds: int, measure: Callable[[int], dict[str, Any]]) -> None:
    """The program ``module``: measure as many rounds as its arguments say, print what was found, and write it."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--note", help="what else the machine did, to be kept with the results")
    options = parser.parse_args()
    record = {
        "command": f"python -m {module}",
        "python": platform.python_version(),
        "processor": environment.describe()["processor"],
        **({} if options.note is None else {"note": options.note}),
        **measure(options.rounds),
    }
    print(json.dumps(record, indent=1))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
