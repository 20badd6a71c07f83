"""What is done to a server, one scene after another, and what became of every request."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.gpu.overload.audit import Auditor, growth
from benchmarks.gpu.overload.client import Ask, Ending, Kind, ask_all, ask_in_turn
from benchmarks.gpu.overload.hog import MemoryHog
from benchmarks.gpu.overload.mix import Mix

NUM_LONG_IN_TURN = 5
"""More than the failed steps in a row after which an engine gives up, were they not for want of memory."""
NUM_LONG_AT_ONCE = 4
NUM_DECODING = 8
HEAD_START_S = 0.1
"""For answers to be under way when a step fails: a few tokens."""
NUM_SMALL = 4
OVERLOADED = "refused: 503 unavailable"
NO_MEMORY = "has no memory left for this step"


@dataclass(slots=True)
class Outcome:
    """What a scene showed. ``problems``: what is not as it should be, in words."""

    scene: str
    seconds: float
    ended: dict[str, int]
    grown: dict[str, int]
    same_as_alone: dict[str, int]
    """Known questions among the answered ones, by whether the text was that of asking them alone."""
    problems: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)


class Stage:
    """One server with its auditor, on which scenes are played."""

    def __init__(self, port: int, model: str, mix: Mix, *, limit_s: float, are_texts_exact: bool) -> None:
        """``limit_s``: what takes longer hangs. ``are_texts_exact``: no batch may change an answer."""
        self._port = port
        self._model = model
        self._mix = mix
        self._limit_s = limit_s
        self._are_texts_exact = are_texts_exact
        self._auditor = Auditor(port, model, mix.references)

    def full_pool(self, num_requests: int, *, some_leave: bool) -> Outcome:
        """So many streams at once, far more than the KV cache holds."""
        asks = self._mix.load(num_requests, some_leave=some_leave)
        outcome = self._load("clients leave" if some_leave else "full pool", asks, {Kind.ANSWERED, Kind.LEFT})
        if not some_leave and not outcome.grown["preemptions"]:  # who leaves makes room
            outcome.problems.append("nobody was preempted: the scene shows nothing; give the server fewer blocks")
        if some_leave and not any(label.startswith("left") for label in outcome.ended):
            outcome.problems.append("no client left before its answer was over: the scene shows nothing")
        return outcome

    def crowd(self, num_requests: int, most: int) -> Outcome:
        """More at once than the server takes, which is ``most``: it has to refuse some, and to serve as many."""
        outcome = self._load("more than it takes", self._mix.crowd(num_requests), {Kind.ANSWERED, Kind.REFUSED})
        if outcome.ended.get(OVERLOADED, 0) > num_requests - most:
            outcome.problems.append(
                f"it takes {most} requests, and refused {outcome.ended[OVERLOADED]} of {num_requests}"
            )
        if not outcome.ended.get(OVERLOADED):
            outcome.problems.append("nobody was refused: the scene shows nothing")
        return outcome

    def out_of_memory(self, hog: MemoryHog, num_tokens: int) -> Outcome:
        """Steps of prompts of ``num_tokens`` tokens find no memory on the device, until the hog gives it back."""
        notes: dict[str, Any] = {}
        alone = self._mix.long(NUM_LONG_IN_TURN, num_tokens)
        together = self._mix.long(NUM_LONG_AT_ONCE, num_tokens, starts_after_s=HEAD_START_S)
        decoding, small = self._mix.decoding(NUM_DECODING), self._mix.decoding(NUM_SMALL)

        def play() -> tuple[list[Ask], list[Ending], list[str]]:
            notes.update(hog.take())
            failing = ask_in_turn(self._port, self._model, alone, self._limit_s)
            mixed = ask_all(self._port, self._model, [*decoding, *together], self._limit_s)
            beside = ask_all(self._port, self._model, small, self._limit_s)
            hog.give_back()
            again = ask_all(self._port, self._model, [*decoding, *alone, *together], self._limit_s)
            groups = {
                "long prompts": [*failing, *mixed[NUM_DECODING:]],
                "answers under way": mixed[:NUM_DECODING],
                "small requests": beside,
                "after": again,
            }
            notes["ended"] = {name: counted(endings) for name, endings in groups.items()}
            endings = [ending for group in groups.values() for ending in group]
            return [], endings, memory_problems(groups)

        outcome = self._scene("out of memory", play)
        outcome.notes = notes
        return outcome

    def _load(self, name: str, asks: list[Ask], may: set[Kind]) -> Outcome:
        """All at once; they may end as ``may`` says, and be refused for the server's load only."""

        def play() -> tuple[list[Ask], list[Ending], list[str]]:
            endings = ask_all(self._port, self._model, asks, self._limit_s)
            others = [e for e in endings if e.kind not in may or (e.kind is Kind.REFUSED and e.label != OVERLOADED)]
            return asks, endings, [f"{count} requests ended as {label!r}" for label, count in counted(others).items()]

        outcome = self._scene(name, play)
        if outcome.grown["failed_steps"]:
            outcome.problems.append(f"{outcome.grown['failed_steps']} steps failed")
        return outcome

    def _scene(self, name: str, play: Callable[[], tuple[list[Ask], list[Ending], list[str]]]) -> Outcome:
        started_s, before = time.monotonic(), self._auditor.metrics()
        asks, endings, problems = play()
        problems += self._auditor.audit(before, endings)
        same = self._compared(asks, endings)
        if same["different"] and self._are_texts_exact:
            problems.append(f"{same['different']} answers are not those of the same questions asked alone")
        return Outcome(
            scene=name,
            seconds=round(time.monotonic() - started_s, 1),
            ended=counted(endings),
            grown=growth(before, self._auditor.last),
            same_as_alone=same,
            problems=problems,
        )

    def _compared(self, asks: Sequence[Ask], endings: Sequence[Ending]) -> dict[str, int]:
        answers = self._auditor.answers
        are_same = [
            ending.text == answers[ask.reference]
            for ask, ending in zip(asks, endings, strict=False)
            if ask.reference is not None and ending.kind is Kind.ANSWERED
        ]
        return {"same": sum(are_same), "different": len(are_same) - sum(are_same)}


def counted(endings: Sequence[Ending]) -> dict[str, int]:
    """How many ended in which way."""
    return dict(sorted(Counter(ending.label for ending in endings).items()))


def memory_problems(groups: dict[str, list[Ending]]) -> list[str]:
    """Which requests should have ended otherwise while there was no memory, and after."""
    may: dict[str, Callable[[Ending], bool]] = {
        "long prompts": _found_no_memory,
        "answers under way": lambda ending: ending.kind is Kind.ANSWERED or _found_no_memory(ending),
        "small requests": lambda ending: ending.kind is Kind.ANSWERED,
        "after": lambda ending: ending.kind is Kind.ANSWERED,
    }
    problems = []
    for name, endings in groups.items():
        others = [ending.label for ending in endings if not may[name](ending)]
        if others:
            problems.append(f"{name}: {len(others)} of {len(endings)} ended otherwise, as {others[0]!r}")
    return problems


def _found_no_memory(ending: Ending) -> bool:
    return ending.is_step_error and NO_MEMORY in ending.message
