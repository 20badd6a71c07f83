"""Which font can draw a figure's letters."""

from collections.abc import Sequence
from functools import cache

from matplotlib import font_manager

LATIN = "DejaVu Sans"
_CHINESE = (
    *("Noto Sans CJK SC", "Noto Sans SC", "Source Han Sans SC", "Source Han Sans CN", "WenQuanYi Micro Hei"),
    *("WenQuanYi Zen Hei", "Microsoft YaHei", "PingFang SC", "Hiragino Sans GB", "SimHei", "Noto Sans CJK JP"),
)


@cache
def chinese_font() -> str | None:
    """The first installed font that has Chinese characters."""
    installed = {entry.name for entry in font_manager.fontManager.ttflist}
    return next((name for name in _CHINESE if name in installed), None)


def families() -> Sequence[str]:
    """Fonts in the order in which a letter is looked for."""
    chinese = chinese_font()
    return [LATIN] if chinese is None else [LATIN, chinese]
