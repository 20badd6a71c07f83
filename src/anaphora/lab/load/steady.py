"""What went on within a window: requests open at once, tokens and answers that arrived, and who is measured."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from anaphora.lab.load.records import Beat, LoadRecord, Stage, Window
from anaphora.lab.load.timings import num_output_tokens


@dataclass(frozen=True, slots=True)
class Steady:
    """A stage's window, with all records and beats of the stage."""

    stage: Stage
    window: Window
    records: tuple[LoadRecord, ...]
    beats: tuple[Beat, ...]

    @property
    def has_window(self) -> bool:
        """Whether there is anything to measure."""
        return self.window.begin_ns is not None and self.window.end_ns is not None

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """Begin and end of the window, which there must be."""
        assert self.window.begin_ns is not None
        assert self.window.end_ns is not None
        return self.window.begin_ns, self.window.end_ns

    @property
    def seconds(self) -> float:
        """Length of the window."""
        begin, end = self.bounds_ns
        return (end - begin) / 1e9

    def due(self) -> list[LoadRecord]:
        """All requests that were due in the window, abandoned ones too."""
        begin, end = self.bounds_ns
        return [record for record in self.records if begin <= record.intended_ns < end]

    def measured(self) -> list[LoadRecord]:
        """Requests due in the window that were answered, or failed."""
        return [record for record in self.due() if not record.abandoned]

    def num_output_tokens(self) -> float:
        """Tokens that arrived in the window, of whatever request. Where events carry several tokens, each carries its
        answer's mean."""
        begin, end = self.bounds_ns
        total = 0.0
        for record in self.records:
            if record.token_offsets_ns and record.error is None:
                within = bisect_left(record.token_offsets_ns, end - record.sent_ns)
                within -= bisect_left(record.token_offsets_ns, begin - record.sent_ns)
                total += within * num_output_tokens(record) / len(record.token_offsets_ns)
        return total

    def num_answers(self) -> int:
        """Requests whose whole answer had come within the window, whenever they were sent."""
        begin, end = self.bounds_ns
        return sum(begin <= record.end_ns < end and record.error is None for record in self.records)

    def mean_open(self) -> float:
        """Requests open at once, averaged over the window."""
        begin, end = self.bounds_ns
        overlaps = (min(record.end_ns, end) - max(record.sent_ns, begin) for record in self.records)
        return sum(max(0, overlap) for overlap in overlaps) / (end - begin)

    def open_at(self, instant_ns: int) -> int:
        """Requests open at that instant."""
        return sum(record.sent_ns <= instant_ns < record.end_ns for record in self.records)

    def most_open(self) -> int:
        """The most requests open at once in the window."""
        begin, end = self.bounds_ns
        changes = sorted(
            change
            for record in self.records
            if record.sent_ns < end and record.end_ns > begin
            for change in ((max(record.sent_ns, begin), 1), (record.end_ns, -1))
        )
        return max(accumulate(step for _, step in changes), default=0)

    def beats_within(self) -> list[Beat]:
        """How busy the sending processes were meanwhile."""
        begin, end = self.bounds_ns
        return [beat for beat in self.beats if begin <= beat.at_ns <= end + 1_000_000_000]


def steady_stages(
    stages: Sequence[Stage], windows: Sequence[Window], records: Sequence[LoadRecord], beats: Sequence[Beat]
) -> list[Steady]:
    """The stages that ran, in order; those of which nothing is known are absent."""
    by_stage = {window.stage: window for window in windows}
    return [
        Steady(
            stage,
            by_stage[stage.number],
            tuple(record for record in records if record.stage == stage.number),
            tuple(beat for beat in beats if beat.stage == stage.number),
        )
        for stage in stages
        if stage.number in by_stage
    ]
