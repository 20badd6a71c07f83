"""When visits are returned to, if at all, by kind and age. Learnt from what happens; bounded."""

from bisect import bisect_right
from collections import deque

from anaphora.kvcache.eviction.visit import NUM_KINDS, Visit

STEPS_PER_OCTAVE = 2
NUM_STEPS = 21
MAX_WAITING = 8192
"""Visits followed within one step of age. Of more, the oldest are followed no further."""
HALF_LIFE = 65536
"""After so many visits everything counted before counts half: habits change."""

Table = list[list[float]]


class LifeTable:
    """Ages are counted in stored blocks. From 1/64 of the pool's size on, each octave has two steps.

    ``entered[kind][step]``: visits that nobody had returned to when they reached the step. ``returned[kind][step]``:
    those that somebody returned to within it. A visit whose blocks were asked for in part counts in that part.
    """

    def __init__(self, num_blocks: int) -> None:
        self.edges = [0.0]
        """The age at which each step begins. The last one has no end."""
        self.edges += [num_blocks / 64 * 2 ** (step / STEPS_PER_OCTAVE) for step in range(NUM_STEPS - 1)]
        self.entered: Table = [[0.0] * NUM_STEPS for _ in range(NUM_KINDS)]
        self.returned: Table = [[0.0] * NUM_STEPS for _ in range(NUM_KINDS)]
        waiting: list[deque[Visit]] = [deque(maxlen=MAX_WAITING) for _ in range(NUM_STEPS)]
        following = [*waiting[1:], deque[Visit](maxlen=0)]
        self._queues = list(zip(range(NUM_STEPS), self.edges, waiting, following, strict=True))[1:]
        """For each step but the first, its number and edge, and the visits that have not reached it yet, the oldest
        first; then the queue for the next step. After the last one nobody waits any more."""
        self._newest = waiting[1]
        self._num_visits = 0
        self._now = 0

    def count_visit(self, visit: Visit, now: int) -> None:
        """Blocks were left ``now``. All earlier visits age until then."""
        if now > self._now:
            self._advance(now)
        if visit.num_left:  # it is in the first step at once
            self.entered[visit.kind][0] += visit.num_left / visit.num_blocks
            self._newest.append(visit)
        self._num_visits += 1
        if self._num_visits % HALF_LIFE == 0:
            for table in (self.entered, self.returned):
                table[:] = [[count / 2 for count in row] for row in table]

    def count_return(self, visit: Visit, num_blocks: int, now: int) -> None:
        """Somebody asks for some of the visit's blocks."""
        visit.num_left -= num_blocks
        self.returned[visit.kind][self.step(now - visit.left_at)] += num_blocks / visit.num_blocks

    def step(self, age: int) -> int:
        """The step in which an age lies."""
        return bisect_right(self.edges, age) - 1

    def _advance(self, now: int) -> None:
        """Visits old enough have reached their next step, and wait for the one after if anything of them is left."""
        self._now = now
        entered = self.entered
        for step, edge, waiting, following in self._queues:
            latest = now - edge
            while waiting and waiting[0].left_at <= latest:
                visit = waiting.popleft()
                if visit.num_left:
                    entered[visit.kind][step] += visit.num_left / visit.num_blocks
                    following.append(visit)
