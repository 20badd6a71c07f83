"""The languages in which the lab reports. Their messages stand in ``LANGUAGE*.toml`` beside this file."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anaphora.errors import ConfigError
from anaphora.report.fonts import chinese_font
from anaphora.report.language import Catalogue, Say, english


@dataclass(frozen=True, slots=True)
class Language:
    """``code`` as in HTML's ``lang``."""

    code: str
    say: Say

    @property
    def can_be_drawn(self) -> bool:
        """Whether a font is installed that has this language's letters."""
        return self.code == ENGLISH.code or chinese_font() is not None


def messages_of(name: str) -> dict[str, str]:
    """The messages of a language by their English, from all chapters of its files."""
    files = sorted(Path(__file__).parent.glob(f"{name}*.toml"))
    chapters = [chapter for file in files for chapter in tomllib.loads(file.read_text("utf-8")).values()]
    return {message: text for chapter in chapters for message, text in chapter.items()}


ENGLISH = Language("en", english)
CHINESE = Language("zh", Catalogue(messages_of("chinese"), joints={"; ": ";", ". ": "。", ", ": ","}))
LANGUAGES: Mapping[str, Language] = {language.code: language for language in (ENGLISH, CHINESE)}


def language_of(code: str) -> Language:
    """The language of that code; :class:`ConfigError` if there are no reports in it."""
    if code not in LANGUAGES:
        raise ConfigError(f"no reports in {code!r}: --lang takes {' or '.join(LANGUAGES)}")
    return LANGUAGES[code]
