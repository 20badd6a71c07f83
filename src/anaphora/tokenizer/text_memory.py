"""Ids of texts that were encoded before, so that the next turn of a chat does not encode its history again."""

import sys
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from anaphora.types import Namespace

if TYPE_CHECKING:
    from array import array

ENTRY_BYTES = 400
"""What an entry takes beside its text and ids: the objects around them and its place in the table."""


class TextMemory:
    """Texts and their ids, at most ``max_bytes`` of both; the least recently used go first. Safe to use from threads.

    An entry belongs to a namespace and is found by it alone: how fast a text is encoded must not tell one tenant what
    another has sent.
    """

    def __init__(self, max_bytes: int) -> None:
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._entries: OrderedDict[tuple[Namespace, str], array[int]] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, owner: Namespace, text: str) -> "array[int] | None":
        """The ids of ``text`` if ``owner`` has them here. They must not be changed."""
        key = owner, text
        with self._lock:
            ids = self._entries.get(key)
            if ids is not None:
                self._entries.move_to_end(key)
        return ids

    def keep(self, owner: Namespace, text: str, ids: "array[int]") -> None:
        """Remember ``ids``, unless they alone are more than there is room for."""
        key, num_bytes = (owner, text), _size(text, ids)
        if num_bytes > self._max_bytes:
            return
        with self._lock:
            if key in self._entries:  # another thread was as fast
                return
            self._entries[key] = ids
            self.num_bytes += num_bytes
            while self.num_bytes > self._max_bytes:
                (_, old_text), old_ids = self._entries.popitem(last=False)
                self.num_bytes -= _size(old_text, old_ids)


def _size(text: str, ids: "array[int]") -> int:
    return sys.getsizeof(text) + ids.itemsize * len(ids) + ENTRY_BYTES
