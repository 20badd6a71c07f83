"""A figure that two runs are compared by: its samples in cells, and how it is made from them."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

from anaphora.lab.statistics import Samples

Unit = Literal["ms", "ms/1000 tokens", "ms/(1000 tokens)²", "%"]
Statistic = Callable[[Sequence[Samples]], Samples]


@dataclass(frozen=True, slots=True)
class Cell:
    """Samples of one place: ``rows`` [n, k], and ``keys`` that say what each row was asked, to find it again."""

    keys: tuple[Hashable, ...]
    rows: Samples


@dataclass(frozen=True, slots=True)
class Quantity:
    """``statistic`` maps the rows of all cells, each [..., n, k], to the figure, [...]."""

    place: str
    name: str
    unit: Unit
    cells: tuple[Cell, ...]
    statistic: Statistic

    @property
    def value(self) -> float:
        """The figure itself."""
        return float(self.statistic([cell.rows for cell in self.cells]))

    @property
    def num_samples(self) -> int:
        """Rows of all cells together."""
        return sum(len(cell.keys) for cell in self.cells)
