"""Who asks in a synthetic mix: chats, agents, readers of documents, scans; and the world in which they take turns.

Each asks, waits for a random number of other requests, and asks again with a longer prompt.
"""

from array import array
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import NamedTuple

from anaphora.traces.request import HashedPrompt, TraceRequest
from anaphora.types import Namespace

BLOCK_SIZE = 64


class Turn(NamedTuple):
    """What an actor asks, and how many requests of others pass, more or less, before it asks again."""

    block_ids: list[int]
    num_answer_tokens: int
    pause: float


Actor = Iterator[Turn]


class World:
    """Makes block numbers, and lets actors take turns."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._numbers = count()
        self._queue: list[tuple[float, int, Namespace, Actor]] = []
        self._order = count()

    def new(self, num_blocks: float) -> list[int]:
        """Blocks that nobody has seen."""
        return [next(self._numbers) for _ in range(max(1, round(num_blocks)))]

    def length(self, median: float, spread: float = 0.7) -> float:
        """A length or pause with a long tail."""
        return median * self.random.lognormvariate(0, spread)

    def begin(self, at: float, actor: Actor, tenant: int = 0) -> None:
        """An actor's first turn comes at a time. A unit of time is what one request takes on average."""
        heappush(self._queue, (at, next(self._order), Namespace(f"tenant-{tenant}"), actor))

    def play(self, num_requests: int) -> list[TraceRequest]:
        """The first requests of all actors together, in the order of time. Each prompt has a tail of its own."""
        requests: list[TraceRequest] = []
        while self._queue and len(requests) < num_requests:
            at, _, namespace, actor = heappop(self._queue)
            turn = next(actor, None)
            if turn is None:
                continue
            num_tokens = len(turn.block_ids) * BLOCK_SIZE + self.random.randrange(1, BLOCK_SIZE)
            prompt = HashedPrompt(array("I", [*turn.block_ids, *self.new(1)]), num_tokens)
            requests.append(
                TraceRequest(
                    line=len(requests) + 1,
                    arrival_s=at,
                    prompt=prompt,
                    num_output_tokens=turn.num_answer_tokens,
                    namespace=namespace,
                )
            )
            heappush(self._queue, (at + turn.pause, next(self._order), namespace, actor))
        return requests


def chat(world: World, system: list[int], chance_of_more: float, pause: float, blocks_a_turn: float = 4) -> Actor:
    """A conversation behind a system prompt. After each answer it goes on with a chance, as long as it lasts."""
    prompt = list(system)
    while True:
        prompt += world.new(world.length(blocks_a_turn))
        answer = round(world.length(300))
        yield Turn(list(prompt), answer, world.length(pause))
        if world.random.random() > chance_of_more:
            return
        prompt += world.new(answer / BLOCK_SIZE)


def agent(world: World, system: list[int], num_steps: int, pause: float) -> Actor:
    """A long context that grows by tool results at once after each brief answer."""
    prompt = system + world.new(world.length(20))
    for _ in range(num_steps):
        yield Turn(list(prompt), round(world.length(40)), world.length(pause))
        prompt += world.new(world.length(3))


def one_off(world: World, system: list[int], median_blocks: float) -> Actor:
    """A document that nobody asks about again."""
    yield Turn(system + world.new(world.length(median_blocks)), round(world.length(200)), 1)


def questions(world: World, document: list[int], num_questions: int, pause: float) -> Actor:
    """Questions about one document, one after the other, each with nothing in common but the document."""
    for _ in range(num_questions):
        yield Turn(document + world.new(1), round(world.length(150)), world.length(pause))


def loop(documents: list[list[int]]) -> Actor:
    """The same documents again and again in the same order."""
    while True:
        for document in documents:
            yield Turn(document, 100, 1)
