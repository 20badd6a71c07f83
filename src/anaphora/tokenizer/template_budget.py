"""How much one rendering may do: steps, text, and processor time.

Steps and text are counted, so the same template and chat always end the same way; the clock is there for what counting
misses, and is that of the rendering thread alone, so a busy machine does not turn a good chat into an error.
"""

import time
from collections.abc import ItemsView, KeysView, Mapping, ValuesView
from typing import Any

from anaphora.errors import ChatTemplateError

MAX_STEPS = 1_000_000
"""Rounds of loops, calls and filters in one rendering. A chat of a thousand messages takes some ten thousand."""
BASE_SIZE = 4_000_000
SIZE_PER_INPUT_CHARACTER = 64
"""Characters and list items that one rendering may make in all its steps: this much, and so much more per character
that it was given, since honest templates copy each message a few times."""
MAX_CPU_S = 1.0
_CLOCK_EVERY = 64
_SCALAR_SIZE = 16

_CONTAINERS = (list, tuple, dict, set, frozenset, KeysView, ValuesView, ItemsView)


class RenderBudget:
    """What is left for one rendering. Whatever spends more raises :class:`ChatTemplateError`."""

    __slots__ = ("_deadline_s", "_size", "_steps")

    def __init__(self, input_size: int = 0) -> None:
        self._steps = MAX_STEPS
        self._size = BASE_SIZE + SIZE_PER_INPUT_CHARACTER * input_size
        self._deadline_s = time.thread_time() + MAX_CPU_S

    def step(self) -> None:
        """Count one round of a loop, one call or one filter."""
        self._steps -= 1
        if self._steps % _CLOCK_EVERY == 0 and (self._steps <= 0 or time.thread_time() > self._deadline_s):
            raise ChatTemplateError("the chat template runs too long", param="messages")

    def charge(self, size: int) -> None:
        """Count ``size`` characters or items, best before they are made."""
        self._size -= size
        if self._size < 0:
            raise ChatTemplateError("the chat template makes too much text", param="messages")

    def charge_value(self, value: Any) -> None:
        """Count a value that was made: its own length, not that of what it refers to."""
        if isinstance(value, (str, *_CONTAINERS)):
            self.charge(len(value))

    def measure(self, value: Any) -> tuple[int, int]:
        """Size and depth of ``value`` by a full walk, which costs a step per container.

        A few lists that hold each other twice are small in memory and endless to print, compare or hash, in one call
        that nothing can interrupt: so whatever walks over a whole value is preceded by this walk, which can stop.
        """
        if isinstance(value, str):
            return len(value), 0
        if not isinstance(value, _CONTAINERS):
            return _SCALAR_SIZE, 0
        size, deepest, stack = 0, 1, [(value, 1)]
        while stack:
            container, depth = stack.pop()
            self.step()
            deepest = max(deepest, depth)
            for item in _items(container):
                size += len(item) if isinstance(item, str) else _SCALAR_SIZE
                if isinstance(item, _CONTAINERS):
                    stack.append((item, depth + 1))
            if size > self._size:
                self.charge(size)
        return size, deepest

    def charge_text(self, value: Any) -> None:
        """Count the text that ``str(value)`` will be."""
        self.charge(self.measure(value)[0])


def _items(container: Any) -> Any:
    return [*container, *container.values()] if isinstance(container, Mapping) else container
