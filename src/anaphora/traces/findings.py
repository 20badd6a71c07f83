"""What was strange in a trace file: every kind counted, with the first lines where it was seen. Nothing is silent."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum

NUM_LINES_SHOWN = 5


class FindingKind(StrEnum):
    """Kinds of dirt; the value is the name that machines read."""

    DAMAGED = "damaged"
    CUT_OFF = "cut_off"
    BYTE_ORDER_MARK = "byte_order_mark"
    BLANK = "blank_lines"
    WRONG_BLOCK_COUNT = "wrong_block_count"
    UNIDENTIFIED_TAIL = "unidentified_tail"
    ID_OF_TWO_SIZES = "id_of_two_sizes"
    ID_WITH_TWO_PARENTS = "id_with_two_parents"
    EMPTY_PROMPT = "empty_prompt"
    NO_PREFIX = "no_prefix"
    NO_OUTPUT = "no_output"
    NO_TIME = "no_time"
    REVERSED = "reversed"
    UNSORTED = "unsorted"
    SESSION_IDS = "session_ids"
    UNREADABLE_PROMPT = "unreadable_prompt"
    EMPTIED = "emptied"
    LOST = "lost"


_TEXTS = {
    FindingKind.DAMAGED: ("skipped", "not a row of this format"),
    FindingKind.CUT_OFF: ("skipped", "the file ends in the middle of a row"),
    FindingKind.BYTE_ORDER_MARK: ("note", "the file begins with a byte order mark"),
    FindingKind.BLANK: ("note", "blank lines"),
    FindingKind.WRONG_BLOCK_COUNT: ("skipped", "not as many block ids as the prompt's length asks for"),
    FindingKind.UNIDENTIFIED_TAIL: ("note", "the last, partial block has no id: it counts as never seen before"),
    FindingKind.ID_OF_TWO_SIZES: ("note", "a block id stands for two lengths: they count as two blocks"),
    FindingKind.ID_WITH_TWO_PARENTS: ("note", "a block id follows two different blocks: they count as two prefixes"),
    FindingKind.EMPTY_PROMPT: ("skipped", "the prompt is empty"),
    FindingKind.NO_PREFIX: ("skipped", "a length only: nothing tells what the prompt begins with"),
    FindingKind.NO_OUTPUT: ("note", "an output of no tokens: the request may have failed"),
    FindingKind.NO_TIME: ("note", "no time of arrival: the order of the file is kept"),
    FindingKind.REVERSED: ("note", "the file runs from the latest to the earliest request: it was turned round"),
    FindingKind.UNSORTED: ("note", "times run backwards: requests were sorted by time"),
    FindingKind.SESSION_IDS: ("note", "block ids are local to a session: sharing between sessions is not known"),
    FindingKind.UNREADABLE_PROMPT: ("skipped", "the chat template refuses the messages"),
    FindingKind.EMPTIED: (
        "note",
        "the cache was emptied by a reset or a new start: nothing later matches what was before",
    ),
    FindingKind.LOST: ("note", "requests that the server could not log in time: they are missing here"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """``count`` rows or places of one kind; ``lines`` are the first few of them, ``detail`` explains the first."""

    kind: FindingKind
    count: int
    lines: tuple[int, ...]
    detail: str

    @property
    def skips_rows(self) -> bool:
        """Whether the rows were left out."""
        return _TEXTS[self.kind][0] == "skipped"

    def __str__(self) -> str:
        """One line for people."""
        where = ", ".join(map(str, self.lines)) + (", …" if self.count > len(self.lines) else "")
        place = f" (line{'s' if self.count > 1 else ''} {where})" if self.lines else ""
        left_out = "left out: " if self.skips_rows else ""
        detail = f"; first: {self.detail}" if self.detail else ""
        return f"{left_out}{self.count} × {_TEXTS[self.kind][1]}{place}{detail}"


class Findings:
    """Collects them while a file is read."""

    def __init__(self) -> None:
        self._counts: Counter[FindingKind] = Counter()
        self._lines: defaultdict[FindingKind, list[int]] = defaultdict(list)
        self._details: dict[FindingKind, str] = {}

    def add(self, kind: FindingKind, line: int | None = None, detail: str = "", count: int = 1) -> None:
        """One more, or ``count`` more."""
        self._counts[kind] += count
        if line is not None and len(self._lines[kind]) < NUM_LINES_SHOWN:
            self._lines[kind].append(line)
        self._details.setdefault(kind, detail)

    def count(self, kind: FindingKind) -> int:
        """How many so far."""
        return self._counts[kind]

    def all(self) -> tuple[Finding, ...]:
        """In the order in which each kind was first seen."""
        return tuple(
            Finding(kind, count, tuple(self._lines[kind]), self._details[kind]) for kind, count in self._counts.items()
        )
