"""What is known of blocks when a request leaves them: the circumstances that tell how likely anybody comes back."""

from anaphora.kvcache.extent import Extent

BRIEF_ANSWER_TOKENS = 64
"""Shorter answers are labels, titles and tool calls. Whoever asks for those comes back late, but comes back."""
NUM_KINDS = 64
"""The second half are those of the first half with brief answers."""


class Visit:
    """Blocks that one request left at the same moment, either those that it found or those that it added.

    A request leaves two visits. Blocks that it found have proven that they are shared; blocks that it added may be the
    next turn's beginning, or a document that nobody asks about again.
    """

    __slots__ = ("kind", "left_at", "num_blocks", "num_left", "turn")

    def __init__(self, turn: int, kind: int) -> None:
        self.turn = turn
        """How many requests, one continuing the other, led here: 1 for a prompt that nothing was known of."""
        self.kind = kind
        """Visits of one kind are expected to fare alike: 0 up to ``NUM_KINDS``."""
        self.num_blocks = 0
        self.num_left = 0
        """Blocks of it that no request has come back for."""
        self.left_at = 0
        """When the request left, in blocks stored until then."""

    def add(self, extent: Extent) -> None:
        """The request leaves an extent, and nobody else holds it."""
        extent.visit = self
        extent.turn = extent.turn or self.turn
        num_blocks = extent.num_blocks
        self.num_blocks += num_blocks
        self.num_left += num_blocks


def visits(turn: int, num_found: int, num_added: int, num_answer_tokens: int) -> tuple[Visit, Visit]:
    """The visits of a request that found ``num_found`` blocks, added ``num_added`` and generated an answer.

    ======================  =====================================================================
    what                    kinds
    ======================  =====================================================================
    added, first turns      by the number of added blocks, a kind for each power of 2
    added, later turns      by the number of added blocks, a kind for each power of 4
    found                   by turn (up to 2, 3, 4, more), and whether much was added to it
    ======================  =====================================================================

    All of them twice: for brief answers and for others.
    """
    size = num_added.bit_length()
    added = min(size, 15) if turn <= 2 else 16 + min(size // 2, 7)
    found = 24 + 2 * min(max(turn - 2, 0), 3) + (2 * num_added > num_found)
    half = NUM_KINDS // 2 if num_answer_tokens < BRIEF_ANSWER_TOKENS else 0
    return Visit(turn, found + half), Visit(turn, added + half)


def is_brief(kind: int) -> bool:
    """Whether the visits of a kind had brief answers."""
    return kind >= NUM_KINDS // 2
