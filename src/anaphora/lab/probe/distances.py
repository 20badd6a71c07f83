"""What a cache holds, reckoned by distance: tokens of the prompts that came after this one.

A cache that loses what was used longest ago holds every prompt up to one distance of use, and none beyond; a cache that
loses what was stored longest ago, up to one distance of storing.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Bounds:
    """``at_least`` tokens were held, ``less_than`` were not (``None``: nothing was lost).

    ``is_by_age``: nothing was lost that was used later than something that was held. If not, both are rough: the
    least that came after a prompt that was lost, and all that was sent.
    """

    at_least: int
    less_than: int | None
    is_by_age: bool = True

    @property
    def middle(self) -> float:
        """Half-way, or the one bound there is."""
        return self.at_least if self.less_than is None else (self.at_least + self.less_than) / 2


@dataclass(slots=True)
class Distances:
    """The prompts in the order in which they should go. ``asking_renews``: a prompt that is found is the latest
    again, else only one that is stored again. ``num_always_cached``: what hits in every prompt."""

    asking_renews: bool
    num_always_cached: int = 0
    _used: dict[str, "_Used"] = field(default_factory=dict)
    """By name, the latest last."""
    _holding: list[int] = field(default_factory=list)
    _lost: list[int] = field(default_factory=list)

    def use(self, name: str, *, num_stored: int, num_sent: int) -> None:
        """A new prompt was sent; of its tokens at least ``num_stored`` are stored anew, at most ``num_sent``."""
        self._used[name] = _Used(num_stored, num_sent)

    def ask_again(self, name: str, num_cached_tokens: int, *, is_whole: bool) -> None:
        """A prompt was asked for again, and so many of its tokens hit; whether all of it was still there."""
        used, later = self._used[name], self._later(name)
        if num_cached_tokens > self.num_always_cached:
            held = used.num_stored if is_whole else min(num_cached_tokens - self.num_always_cached, used.num_stored)
            self._holding.append(held + sum(one.num_stored for one in later))
        if not is_whole:
            self._lost.append(used.num_sent + sum(one.num_sent + one.num_again for one in later))
        if self.asking_renews or not is_whole:
            del self._used[name]
        again = used.num_sent - num_cached_tokens if is_whole else 0
        self._used[name] = _Used(used.num_stored, used.num_sent, again)

    def bounds(self) -> Bounds:
        """What all askings say together."""
        held, lost = max(self._holding, default=0), min(self._lost, default=None)
        if lost is None or held <= lost:
            return Bounds(held, lost)
        return Bounds(lost, max(lost, sum(one.num_sent for one in self._used.values())), is_by_age=False)

    def between(self, bounds: Bounds) -> str | None:
        """The prompt to ask for next: it would be half-way between the bounds. ``None``: there is none between."""
        reach, found = 0, []
        for name in reversed(self._used):
            reach += self._used[name].num_stored
            if bounds.less_than is not None and bounds.at_least < reach < bounds.less_than:
                found.append((abs(reach - bounds.middle), name))
        return min(found)[1] if found else None

    def _later(self, name: str) -> list["_Used"]:
        names = list(self._used)
        return [self._used[later] for later in names[names.index(name) + 1 :]]


@dataclass(frozen=True, slots=True)
class _Used:
    """Tokens of a prompt, and those that asking for it again stored a second time."""

    num_stored: int
    num_sent: int
    num_again: int = 0
