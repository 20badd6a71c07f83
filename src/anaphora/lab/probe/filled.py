"""What one filling of the cache showed, for the two orders in which prompts may go."""

from dataclasses import dataclass

from anaphora.lab.probe.distances import Bounds
from anaphora.lab.probe.retention import Kept

LIKE_LRU, LIKE_FIFO = "as with LRU: what was not used for longest", "as with FIFO: what was stored first"
_CLEARLY_MORE = 1.5


@dataclass(frozen=True, slots=True)
class Filled:
    """What one filling with prompts of ``num_words`` words showed, for either order. Each has ``num_tokens`` tokens, of
    which ``num_stored`` at least are stored as its own."""

    num_words: int
    num_tokens: int
    num_stored: int
    num_sent: int
    num_askings: int
    by_use: Bounds
    by_storing: Bounds
    lost_after_s: float | None
    """The shortest time since its last use after which a prompt was lost; ``None``: none was."""
    longer: "Filled | None" = None
    """An earlier filling with prompts twice as long."""

    @property
    def counts_prompts(self) -> bool:
        """Whether it looks as if the number of prompts were limited, not their tokens."""
        longer = self.longer
        return (
            longer is not None
            and abs(longer.num_held - self.num_held) <= 1
            and longer.bounds().middle > _CLEARLY_MORE * self.bounds().middle
        )

    def bounds(self, order: str | None = None) -> Bounds:
        """For one order; without one, for every order that what was seen does not contradict."""
        if order == LIKE_LRU:
            return self.by_use
        if order == LIKE_FIFO:
            return self.by_storing
        both = (self.by_use, self.by_storing)
        fitting = [bounds for bounds in both if bounds.is_by_age] or both
        less_than = [bounds.less_than for bounds in fitting if bounds.less_than is not None]
        return Bounds(
            min(bounds.at_least for bounds in fitting), max(less_than, default=None), is_by_age=fitting[0].is_by_age
        )

    @property
    def num_held(self) -> int:
        """Whole prompts that surely were held."""
        return max(1, self.bounds().at_least // self.num_stored)

    def may_be_age(self, kept: Kept) -> bool:
        """Whether prompts may have been lost for their age rather than for want of room."""
        return self.lost_after_s is not None and kept.lost_after_s is not None and self.lost_after_s > kept.for_s
