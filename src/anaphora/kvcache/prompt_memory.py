"""Earlier prompts of one namespace, bounded, and which of them a new prompt stayed together with longest."""

from collections import OrderedDict
from typing import NamedTuple

from anaphora.kvcache.prompt_tree import PromptNode, PromptTree
from anaphora.kvcache.token_blocks import TOKEN_BYTES
from anaphora.types import RequestId

WINDOW_UNITS = 16
"""Units told of an earlier prompt from where another one parts with it."""


class NearestPrompt(NamedTuple):
    """An earlier prompt, and how much of it the one asked about begins with."""

    request_id: RequestId
    num_common_units: int
    """Of four bytes: tokens, or what stands for as many as :attr:`TokenBlocks.tokens_per_unit`."""
    num_units: int
    """Length of the earlier prompt."""
    next_units: bytes
    """Its first units that are not common, ``WINDOW_UNITS`` at most."""


class PromptMemory:
    """A tree of packed prompts: what many of them begin with is stored once, and compared once.

    Of more than ``max_prompts`` the one seen longest ago is forgotten.
    """

    def __init__(self, max_prompts: int) -> None:
        self._max_prompts = max_prompts
        self._tree = PromptTree()
        self._looked_for: tuple[bytes, PromptNode, int] | None = None
        """The prompt last looked for, and where it leaves the tree: whose nearest was asked for is brought in next."""
        self._request_ids: OrderedDict[PromptNode, RequestId] = OrderedDict()  # by recency, the oldest first

    def __len__(self) -> int:
        return len(self._request_ids)

    def remember(self, prompt: bytes, request_id: RequestId) -> None:
        """Keep the prompt. One that is known already keeps the name of its first request and becomes the latest."""
        node = self._tree.insert(prompt, *self._find(prompt))
        self._looked_for = None
        if node in self._request_ids:
            self._request_ids.move_to_end(node)
            return
        self._request_ids[node] = request_id
        if len(self._request_ids) > self._max_prompts:
            self._remove(next(iter(self._request_ids)))

    def forget(self, prompt: bytes, request_id: RequestId) -> None:
        """Drop the prompt if this request brought it in."""
        node, num_common = self._find(prompt)
        if node.depth == num_common == len(prompt) and self._request_ids.get(node) == request_id:
            self._remove(node)

    def nearest(self, prompt: bytes) -> NearestPrompt | None:
        """The earlier prompt with the longest common beginning, of equals the longer; ``None`` if nothing is common.

        It is one of the prompt's two neighbours in the order of bytes: any other has no more in common with it.
        """
        node, num_common = self._find(prompt)
        most = num_common // TOKEN_BYTES
        if not most:
            return None
        before, after = self._tree.neighbours(prompt, node, num_common, most * TOKEN_BYTES)
        nearest = before if after is None or (before is not None and before.depth > after.depth) else after
        assert nearest is not None
        num_units = nearest.depth // TOKEN_BYTES
        next_units = nearest.spelt(most * TOKEN_BYTES, min(most + WINDOW_UNITS, num_units) * TOKEN_BYTES)
        return NearestPrompt(self._request_ids[nearest], most, num_units, next_units)

    def clear(self) -> None:
        """Forget every prompt, one by one: a tree as a whole goes only when somebody searches for cycles."""
        while self._request_ids:
            self._remove(next(iter(self._request_ids)))

    def _remove(self, node: PromptNode) -> None:
        del self._request_ids[node]
        self._tree.remove(node)
        self._looked_for = None

    def _find(self, prompt: bytes) -> tuple[PromptNode, int]:
        """Where the prompt leaves the tree: see :meth:`PromptTree.find`."""
        if self._looked_for is None or self._looked_for[0] != prompt:
            self._looked_for = prompt, *self._tree.find(prompt)
        return self._looked_for[1:]
