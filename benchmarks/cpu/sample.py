"""One measured number and all that is needed to judge it. A run is a file of these, one JSON object a line."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """``value`` of ``measure`` on one server; the unit ends the measure's name (``_ms``, ``_s``, ``_mib``).

    ``length``: size in tokens of the shared part of the prompt, ``None`` where there is none. ``round``: which repeat.
    ``detail``: raw stamps, token counts and other facts about the same event.
    """

    measure: str
    server: str
    value: float
    length: int | None = None
    round: int = 0
    detail: dict[str, Any] = field(default_factory=dict)


class Recorder:
    """Writes each sample to disk at once, so that a run that breaks off keeps what it had, and shows it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, sample: Sample) -> None:
        """Append one sample."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(sample), ensure_ascii=False) + "\n")
        size = "" if sample.length is None else f" {sample.length}"
        print(f"{sample.server:9} {sample.measure}{size}: {sample.value:.1f}", flush=True)


def read_samples(path: Path) -> list[Sample]:
    """The samples of a run, in the order in which they were measured."""
    return [Sample(**json.loads(line)) for line in path.read_text("utf-8").splitlines() if line]
