"""Filling a cache with prompts until an early one is lost, and asking where the border is.

Prompts are asked for again whose distance lies between what was held and what was not, until these are close
(:mod:`anaphora.lab.probe.distances`). In which order prompts go is not known yet: all is reckoned for two orders.
"""

from dataclasses import replace

from anaphora.lab.probe.asking import Asked, Asker, LimitReachedError
from anaphora.lab.probe.distances import Distances
from anaphora.lab.probe.filled import Filled
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis

_CLOSE = 0.02
"""The bounds are close enough when they differ by so little, or by one prompt."""
_MAX_ASKINGS = 12
_NEARLY = 0.95
"""Less of a prompt than this share of what hits at once means that some of it was lost, where the prompts' lengths
in tokens vary a little."""
_FEW = 24
"""A cache that holds fewer prompts than this may count prompts, not tokens: prompts of another length tell."""
_MANY = 96
"""About so many prompts fill what may be sent."""
_FIRST_CHECK = 3
_GROWTH = 1.5
_LEAST_WORDS = 64


async def fill(
    asker: Asker, prompts: WordPrompts, basis: Basis, *, block_size: int | None, max_model_len: int | None
) -> Filled | None:
    """One filling; another with prompts half as long if few were held. ``None``: what may be sent is not enough.

    Prompts end at a block's border where that is known: then all of them is stored.
    """
    num_words = _num_words(asker, basis, max_model_len)
    filled = await _fill(asker, prompts, basis, _whole_blocks(asker, basis, num_words, block_size), block_size)
    if filled is None or filled.lost_after_s is None or filled.num_held >= _FEW or not basis.is_told:
        return filled
    num_words = max(_LEAST_WORDS, filled.num_words // 2)
    other = await _fill(asker, prompts, basis, _whole_blocks(asker, basis, num_words, block_size), block_size)
    return filled if other is None or other.lost_after_s is None else replace(other, longer=filled)


def _num_words(asker: Asker, basis: Basis, max_model_len: int | None) -> int:
    """So long that some hundred prompts use up what may be sent; within a quarter of the model's context."""
    if not basis.is_told:
        return basis.num_words  # times are judged at this length alone
    limit = 4 * basis.num_words if max_model_len is None else max_model_len // 4
    return max(basis.num_words, min(asker.tokens_left // _MANY, limit))


def _whole_blocks(asker: Asker, basis: Basis, num_words: int, block_size: int | None) -> int:
    """A few words more, so that the prompt ends at a block's border, if it is known how."""
    if block_size is None or not basis.has_single_token_words:
        return num_words
    return num_words + -asker.cost(num_words) % block_size


async def _fill(
    asker: Asker, prompts: WordPrompts, basis: Basis, num_words: int, block_size: int | None
) -> Filled | None:
    filling = _Filling(asker, prompts, basis, num_words, block_size)
    try:
        await filling.until_lost()
        await filling.narrow()
    except LimitReachedError:
        pass
    return filling.result() if filling.num_sent > _FIRST_CHECK else None


class _Filling:
    """Prompts of one length. Early ones are each looked for once while the cache fills: what is looked for is used."""

    def __init__(
        self, asker: Asker, prompts: WordPrompts, basis: Basis, num_words: int, block_size: int | None
    ) -> None:
        self.num_sent = self._num_askings = 0
        self._block_size = block_size
        self._asker, self._prompts, self._basis, self._num_words = asker, prompts, basis, num_words
        always = basis.num_always_cached
        self._by_use = Distances(asking_renews=True, num_always_cached=always)
        self._by_storing = Distances(asking_renews=False, num_always_cached=always)
        self._num_tokens = self._num_stored = num_words
        self._whole = num_words
        self._used_at_ns: dict[str, int] = {}
        self._lost_after_ns: list[int] = []

    async def until_lost(self) -> None:
        """Send new prompts; at growing numbers look whether an early one, another each time, is still there."""
        first = self._prompts.fresh(self._name(0), self._num_words)
        await self._asker.ask(first)
        self._whole = self._cached(await self._asker.ask(first))
        self.num_sent = 1
        next_check, num_checks = _FIRST_CHECK, 0
        while True:
            await self._new()
            if self.num_sent >= next_check:
                num_checks += 1
                await self._again(self._name(num_checks))
                if self._lost_after_ns:
                    return
                next_check = max(next_check + 2, round(_GROWTH * next_check))

    async def narrow(self) -> None:
        """Ask again where it is not known whether a prompt of that distance is held; this may show that an order is not
        the server's."""
        for distances in (self._by_use, self._by_storing):
            for _ in range(_MAX_ASKINGS):
                bounds = distances.bounds()
                assert bounds.less_than is not None
                close = max(self._num_tokens, _CLOSE * bounds.less_than)
                name = distances.between(bounds)
                if not bounds.is_by_age or name is None or bounds.less_than - bounds.at_least <= close:
                    break
                await self._again(name)

    def result(self) -> Filled:
        """What is known now."""
        return Filled(
            self._num_words,
            self._num_tokens,
            self._num_stored,
            self.num_sent,
            self._num_askings,
            self._by_use.bounds(),
            self._by_storing.bounds(),
            min(self._lost_after_ns) / 1e9 if self._lost_after_ns else None,
        )

    async def _new(self) -> None:
        name = self._name(self.num_sent)
        asked = await self._asker.ask(self._prompts.fresh(name, self._num_words))
        self.num_sent += 1
        self._num_tokens = asked.num_prompt_tokens or self._asker.cost(self._num_words)
        self._used_at_ns[name] = asked.sent_ns
        is_all_stored = not self._basis.is_told or (self._block_size and self._num_tokens % self._block_size == 0)
        self._num_stored = (self._num_tokens if is_all_stored else self._whole) - self._basis.num_always_cached
        for distances in (self._by_use, self._by_storing):
            distances.use(name, num_stored=self._num_stored, num_sent=self._num_tokens)

    async def _again(self, name: str) -> None:
        self._num_askings += 1
        asked = await self._asker.ask(self._prompts.fresh(name, self._num_words))
        cached = self._cached(asked)
        is_whole = cached >= (1 if self._basis.has_single_token_words else _NEARLY) * self._whole
        if not is_whole:
            self._lost_after_ns.append(asked.sent_ns - self._used_at_ns[name])
        self._used_at_ns[name] = asked.sent_ns
        for distances in (self._by_use, self._by_storing):
            distances.ask_again(name, cached, is_whole=is_whole)

    def _cached(self, asked: Asked) -> int:
        """As counted; by time, all or nothing."""
        assert self._basis.judge is not None
        if self._basis.is_told:
            return asked.num_cached_tokens or 0
        return self._num_tokens if self._basis.judge.is_hit(asked) else 0

    def _name(self, number: int) -> str:
        return f"capacity/{self._num_words}/{number}"
