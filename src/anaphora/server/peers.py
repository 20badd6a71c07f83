"""Front ends of one engine know different requests: here each can ask all of them, itself included."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Protocol

AnswerPeer = Callable[[str], bytes]
"""From a question's argument to this front end's part of the answer; empty: nothing to tell."""


class Topic(StrEnum):
    """What front ends ask each other."""

    LATENCIES = "latencies"
    """Latency histograms. The last ones of a front end that is gone still count."""
    TEXT_MEMORY = "text_memory"
    """Bytes of remembered texts and their ids, in decimal."""
    ACCOUNTS = "accounts"
    """Ledgers of the answer that the argument names."""


class Peers(Protocol):
    """All front ends, as one of them sees them."""

    def answer(self, topic: Topic, answer: AnswerPeer) -> None:
        """How this front end answers."""

    async def gather(self, topic: Topic, argument: str = "") -> Sequence[bytes]:
        """Every front end's part of the answer."""


class Alone:
    """The peers of the only front end."""

    def __init__(self) -> None:
        self._answers: dict[Topic, AnswerPeer] = {}

    def answer(self, topic: Topic, answer: AnswerPeer) -> None:
        """See :class:`Peers`."""
        self._answers[topic] = answer

    async def gather(self, topic: Topic, argument: str = "") -> Sequence[bytes]:
        """See :class:`Peers`."""
        return [self._answers[topic](argument)]
