"""What llama.cpp's server will reuse: it keeps whole prompts, one a slot, and no blocks.

A request takes the free slot whose prompt shares the largest part of the new one, if that is more than a tenth of it;
else the slot that rested longest. It reuses what that slot's prompt shares, token by token, and replaces the rest. A
prompt that loses its slot goes into a store in the server's memory (``--cache-ram``), and comes back into the slot when
it shares more than what the slot holds. Source: llama.cpp, ``tools/server``; checked against the real server in
``benchmarks/results/servers``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

SIMILARITY = 0.1
"""``--slot-prompt-similarity``: the least share of a new prompt for which its slot is chosen."""
_KEPT_WITHOUT_SAVING = 0.5
_WORTH_LOADING = 0.25
_UNKNOWN = -1
"""A generated token, of which only the number is known. A prompt that goes on as the model did reuses it:
unforeseen."""


@dataclass(slots=True)
class SlotCache:
    """``num_slots`` prompts and an endless store of those that lost their slot. Requests come one after another."""

    num_slots: int
    _held: list[list[int]] = field(init=False)
    """Tokens by slot, the one that rested longest first."""
    _stored: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._held = [[] for _ in range(self.num_slots)]

    def serve(self, prompt: Sequence[int], num_outputs: int) -> int:
        """Tokens of the prompt that are reused; its last one is computed in any case."""
        held = self._take_slot(prompt)
        reused = min(_shared(held, prompt), len(prompt) - 1)
        answer = [_UNKNOWN] * max(0, num_outputs - 1)  # the last token is sampled, and never computed
        self._held.append([*prompt, *answer])
        return reused

    def _take_slot(self, prompt: Sequence[int]) -> list[int]:
        """What the chosen slot holds when the prompt comes into it."""
        shared = [_shared(held, prompt) for held in self._held]
        best = max(range(self.num_slots), key=lambda slot: shared[slot])
        is_alike = shared[best] / len(prompt) > SIMILARITY
        held = self._held.pop(best if is_alike else 0)
        loses_much = not is_alike or shared[best] / len(held) < _KEPT_WITHOUT_SAVING
        return self._swapped(held, prompt) if held and loses_much else held

    def _swapped(self, held: list[int], prompt: Sequence[int]) -> list[int]:
        """Store a copy of what the slot holds, and have in its place what suits the prompt better."""
        if not any(_shared(stored, held) == len(held) for stored in self._stored):
            self._stored = [one for one in self._stored if _shared(one, held) < len(one)] + [held]
        best, found = _shared(held, prompt), held
        for stored in self._stored:
            shared = _shared(stored, prompt)
            is_worth = shared / len(stored) >= _WORTH_LOADING
            if is_worth and shared > best and shared / len(stored) > best / len(found):
                best, found = shared, stored
        if found is not held:
            self._stored.remove(found)
        return found


def _shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Tokens with which both begin."""
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))
