"""Looks for stop strings in text that comes piece by piece, across whatever borders."""

from collections.abc import Sequence


class StopStringFinder:
    """Releases text that can no longer become part of a stop string and holds the rest back."""

    def __init__(self, stops: Sequence[str], *, include: bool = False) -> None:
        """``include``: a found stop string stays in the text."""
        self._stops = tuple(stops)
        self._include = include
        self._held = ""

    def feed(self, text: str) -> tuple[str, str | None]:
        """New text in; text to release, and the stop string found, if any.

        The stop string that is complete first counts, and of those that end at the same place the longest: so the
        result does not depend on where the pieces were cut. After one was found nothing more may be fed.
        """
        if not self._stops:
            return text, None
        text = self._held + text
        found = [(begin + len(stop), begin) for stop in self._stops if (begin := text.find(stop)) >= 0]
        if found:
            end, begin = min(found)
            self._held = ""
            return text[: end if self._include else begin], text[begin:end]
        num_held = max(_num_common(text, stop) for stop in self._stops)
        self._held = text[len(text) - num_held :]
        return text[: len(text) - num_held], None

    def flush(self) -> str:
        """What was held back; nothing more comes, so it is no stop string."""
        held, self._held = self._held, ""
        return held


def _num_common(text: str, stop: str) -> int:
    """Length of the longest end of ``text`` that begins ``stop``."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
