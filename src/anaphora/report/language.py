"""Reports in another language than English: one catalogue of messages, applied where a text is shown.

Everything is written, and kept in ``results.json``, in English. A catalogue maps English messages to those of another
language, with what varies in braces: ``{name}`` is any text and is translated in turn, ``{name#}`` is a number or a
few. A text that is no message is taken apart at its seams (lines, then semicolons, then sentences, then commas), and
what is still unknown is shown as it is: a text of a server or a prompt is never lost.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator

from anaphora.report.tables import Table

Say = Callable[[str], str]
"""A text as the reader wants it."""

_PLACE = re.compile(r"\{(\w+)(#?)\}")
_NUMBER = r"(?:[+−±\-]?\d(?:[\d.,/]*\d)?(?: ?%)?|–)"
_SEAMS = ("\n", "; ", ". ", " · ", ", ")


def english(text: str) -> str:
    """Texts as they are written."""
    return text


class Catalogue:
    """Translates by ``messages``. ``joints``: how parts are put together again that stood at a seam in English."""

    def __init__(self, messages: Mapping[str, str], joints: Mapping[str, str]) -> None:
        self._messages = messages
        self._joints = joints

    def __call__(self, text: str) -> str:
        """The text in this language, as far as the catalogue knows it."""
        return text if (known := self._known(text)) is None else known

    def _known(self, text: str) -> str | None:
        core = text.strip()
        if core.endswith(".") and (known := self._known(core[:-1])) is not None:
            return text.replace(core, known + self._joints.get(". ", ".").rstrip())
        if not re.search(r"[A-Za-z]{2}", core):
            return None
        if core in self._messages:
            return text.replace(core, self._messages[core])
        for pattern, message in self._patterns:
            if (found := pattern.fullmatch(core)) is not None:
                return text.replace(
                    core, message.format(**{name: self(part) for name, part in found.groupdict().items()})
                )
        return self._by_seams(text)

    def _by_seams(self, text: str) -> str | None:
        for seam in _SEAMS:
            parts = text.split(seam)
            if len(parts) > 1:
                known = [self._known(part) for part in parts]
                if any(part is not None for part in known):
                    return self._joints.get(seam, seam).join(
                        part if new is None else new for part, new in zip(parts, known, strict=True)
                    )
        return None

    @cached_property
    def _patterns(self) -> list[tuple[re.Pattern[str], str]]:
        """Messages with places, those with the most letters of their own first."""
        varied = [message for message in self._messages if _PLACE.search(message)]
        varied.sort(key=lambda message: -len(_PLACE.sub("", message)))
        return [(_pattern(message), _PLACE.sub(r"{\1}", self._messages[message])) for message in varied]


def _pattern(message: str) -> re.Pattern[str]:
    parts, end = [], 0
    for place in _PLACE.finditer(message):
        parts += [re.escape(message[end : place.start()]), f"(?P<{place[1]}>{_NUMBER if place[2] else '.+?'})"]
        end = place.end()
    return re.compile("".join((*parts, re.escape(message[end:]))), re.DOTALL)


def table_in(table: Table, say: Say) -> Table:
    """The same table in the reader's language."""
    return replace(
        table,
        title=say(table.title),
        columns=tuple(f"<{say(name[1:])}" if name.startswith("<") else say(name) for name in table.columns),
        rows=tuple(tuple(say(cell) for cell in row) for row in table.rows),
        note=say(table.note),
    )


def figure_in(figure: Figure, say: Say) -> None:
    """Put every text of a figure into the reader's language."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if isinstance(axis.get_major_locator(), FixedLocator):  # its labels were given; others are numbers
                labels = [say(label.get_text()) for label in axis.get_majorticklabels()]
                if any(labels):  # axes that share their ticks with others may show none
                    axis.set_ticks(axis.get_majorticklocs(), labels)
    for text in figure.findobj(Text):
        assert isinstance(text, Text)
        text.set_text(say(text.get_text()))
