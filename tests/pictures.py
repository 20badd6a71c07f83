"""Stand-ins for drawn figures: drawing is nearly all that a report costs, and a test of its words looks at no picture.

Figures are planned as always; only their rendering is left out, unless a test has the mark ``draws``.
"""

from html import escape
from pathlib import Path
from typing import IO, Any

import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text


def _stand_in(figure: Figure, target: str | Path | IO[bytes], **settings: Any) -> None:
    """In place of ``Figure.savefig``: an SVG of the figure's size that has its texts and nothing else."""
    texts = [text.get_text() for text in figure.findobj(Text) if isinstance(text, Text)]
    body = "".join(f"<text>{escape(text)}</text>" for text in texts if text)
    width, height = (72 * side for side in figure.get_size_inches())
    content = f'<svg width="{width:.0f}pt" height="{height:.0f}pt">{body}</svg>'.encode()
    if isinstance(target, str | Path):
        Path(target).write_bytes(content)
    else:
        target.write(content)


@pytest.fixture(autouse=True)
def stand_ins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For conftests of rooms that make reports."""
    if request.node.get_closest_marker("draws") is None:
        monkeypatch.setattr(Figure, "savefig", _stand_in)
