"""Some servers refuse requests that offer tools unless they were started for it: those are left out, aloud."""

from collections.abc import Callable, Sequence
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.arms import Round
from anaphora.lab.targets.base import ChatRequest, Target


async def without_refused_tools(
    experiments: Sequence[list[Round]], target: Target, run_id: str, note: Callable[[str], None]
) -> tuple[list[list[Round]], tuple[ChatRequest, ...]]:
    """The rounds of each experiment that the target takes, and what was sent to find out.

    Raises:
        TargetError: nothing is left of an experiment; with the server's own words.
    """
    num_with_tools = sum(_has_tools(one) for rounds in experiments for one in rounds)
    if not num_with_tools:
        return list(experiments), ()
    asked = ChatRequest(
        messages=({"role": "user", "content": "Hi"},), max_tokens=1, tools=(_tool_of_no_other_prompt(run_id),)
    )
    refusal = (await target.chat(asked)).answer.error
    if refusal is None:
        return list(experiments), (asked,)
    left = [[one for one in rounds if not _has_tools(one)] for rounds in experiments]
    if not all(left):
        raise TargetError(f"the target takes no tools, and every request of an experiment has some: {refusal}")
    note(f"{num_with_tools} pairs of requests offer tools and are left out, since the target refuses these: {refusal}")
    return left, ()


def _has_tools(pair: Round) -> bool:
    return any(trial.request.tools for trial in pair)


def _tool_of_no_other_prompt(run_id: str) -> dict[str, Any]:
    """Templates write tools in front: one of the run's own would have its beginning cached."""
    return {
        "type": "function",
        "function": {"name": "noop", "description": run_id, "parameters": {"type": "object", "properties": {}}},
    }
