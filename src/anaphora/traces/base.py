"""What every reader of a JSONL trace has in common."""

from collections.abc import Iterable
from typing import Any, ClassVar, Protocol

from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import Row
from anaphora.traces.request import TraceRequest


class TraceReader(Protocol):
    """Turns rows of one format into requests. ``block_size`` is what a block id stands for in this file."""

    name: ClassVar[str]
    default_block_size: ClassVar[int | None]
    interleaves: ClassVar[bool]
    """Rows hold many requests whose times overlap with those of other rows: that is no dirt."""

    def __init__(self, block_size: int | None, findings: Findings) -> None: ...

    @staticmethod
    def recognises(value: Any) -> bool:
        """Whether a row of this shape belongs to the format."""
        ...

    def read(self, row: Row) -> Iterable[TraceRequest]:
        """The requests of a row; none, and a finding, where the row is of no use.

        Raises:
            ValueError: the row is damaged.
        """
        ...


def as_object(value: Any) -> dict[str, Any]:
    """The row as a JSON object. Raises :class:`ValueError` if it is none."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {type(value).__name__}")
    return value


def note_empty_output(num_output_tokens: int | None, line: int, findings: Findings) -> None:
    """An output of zero tokens is worth a word; an unknown one is not."""
    if num_output_tokens == 0:
        findings.add(FindingKind.NO_OUTPUT, line)
