"""A figure as files beside a report, and on its page, in the reader's language."""

from pathlib import Path

from matplotlib.figure import Figure

from anaphora.lab.report.languages import Language
from anaphora.report.figures import inline_svg, save
from anaphora.report.language import figure_in


def keep_figure(picture: Figure, stem: Path, language: Language) -> str:
    """Save a figure as files, and return it for the page. Files need a font that has the letters; a page's reader has
    one."""
    if language.can_be_drawn:
        figure_in(picture, language.say)
        save(picture, stem)
        return inline_svg(picture)
    save(picture, stem)
    figure_in(picture, language.say)
    return inline_svg(picture)
