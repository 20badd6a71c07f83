"""The machine and the versions behind a run, without what would name its owner."""

import importlib.metadata
import os
import platform
from pathlib import Path
from typing import Any

from anaphora import __version__
from anaphora.cores import num_usable_cores

_SHOWN_PACKAGES = ("torch", "numpy", "scipy", "tokenizers", "fastokens")


def describe() -> dict[str, Any]:
    """Hardware, system, versions and load at this moment; what cannot be read is ``None``."""
    return {
        "anaphora": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "num_cpus": num_usable_cores(),
        "memory_gib": _memory_gib(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "packages": {name: version for name in _SHOWN_PACKAGES if (version := _version(name)) is not None},
    }


def _processor() -> str | None:
    return _field(Path("/proc/cpuinfo"), "model name") or platform.processor() or None


def _memory_gib() -> float | None:
    total = _field(Path("/proc/meminfo"), "MemTotal")
    return None if total is None else round(int(total.split()[0]) / 2**20, 1)


def _field(path: Path, name: str) -> str | None:
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    values = (line.partition(":")[2].strip() for line in lines if line.startswith(name))
    return next(values, None)


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
