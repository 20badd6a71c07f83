"""Earlier prompts of one namespace, bounded, and which of them a new prompt stayed together with longest."""

from bisect import bisect_left
from collections import OrderedDict
from typing import NamedTuple

from anaphora.kvcache.token_blocks import TOKEN_BYTES, num_common_units
from anaphora.types import RequestId


class NearestPrompt(NamedTuple):
    """An earlier prompt (packed tokens) and how many of them it begins with in common with the one asked about."""

    request_id: RequestId
    prompt: bytes
    num_common_units: int
    """Of four bytes: tokens, or what stands for as many as :attr:`TokenBlocks.tokens_per_unit`."""

    @property
    def num_units(self) -> int:
        """Length of the earlier prompt."""
        return len(self.prompt) // TOKEN_BYTES


class PromptMemory:
    """Packed prompts in byte order: the one with the longest common beginning is always a neighbour.

    So the question costs a binary search, however many prompts are remembered. Of more than ``max_prompts`` the one
    seen longest ago is forgotten.
    """

    def __init__(self, max_prompts: int) -> None:
        self._max_prompts = max_prompts
        self._sorted: list[bytes] = []
        self._looked_for: tuple[bytes, int] = (b"", 0)
        """The prompt last looked for, and its place: after the question for its nearest it is brought in, mostly."""
        self._request_ids: OrderedDict[bytes, RequestId] = OrderedDict()  # by recency, the oldest first

    def __len__(self) -> int:
        return len(self._sorted)

    def remember(self, prompt: bytes, request_id: RequestId) -> None:
        """Keep the prompt. One that is known already keeps the name of its first request and becomes the latest."""
        if prompt in self._request_ids:
            self._request_ids.move_to_end(prompt)
            return
        self._request_ids[prompt] = request_id
        self._sorted.insert(self._place(prompt), prompt)
        self._looked_for = (b"", 0)
        if len(self._sorted) > self._max_prompts:
            self._remove(next(iter(self._request_ids)))

    def forget(self, prompt: bytes, request_id: RequestId) -> None:
        """Drop the prompt if this request brought it in."""
        if self._request_ids.get(prompt) == request_id:
            self._remove(prompt)

    def nearest(self, prompt: bytes) -> NearestPrompt | None:
        """The earlier prompt with the longest common beginning, of equals the longer; ``None`` if nothing is common."""
        position = self._place(prompt)
        neighbours = self._sorted[max(position - 1, 0) : position + 1]
        nearest, most = b"", 0
        for other in neighbours:
            num_common = num_common_units(prompt, other, TOKEN_BYTES)
            if num_common > most or (num_common == most and len(other) >= len(nearest)):
                nearest, most = other, num_common
        return NearestPrompt(self._request_ids[nearest], nearest, most) if most else None

    def _remove(self, prompt: bytes) -> None:
        del self._request_ids[prompt]
        del self._sorted[self._place(prompt)]
        self._looked_for = (b"", 0)

    def _place(self, prompt: bytes) -> int:
        """Where the prompt stands in the order of bytes, or would."""
        looked_for, place = self._looked_for
        if looked_for != prompt:
            place = bisect_left(self._sorted, prompt)
            self._looked_for = prompt, place
        return place
