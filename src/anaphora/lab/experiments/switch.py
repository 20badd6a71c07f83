"""Does prefix caching help when short questions follow one long system prompt, and by how much?

Eight questions in both arms. The first question of an arm is shown apart: in the on arm it is the one that fills the
cache.
"""

from collections.abc import Sequence
from typing import Any

from anaphora.lab import statistics
from anaphora.lab.arms import Round, Trial
from anaphora.lab.experiments.summary import ms, of_arm, paired_reduction, percent, summarise
from anaphora.lab.timings import e2e_ms, ttft_ms
from anaphora.lab.usage import read_usage
from anaphora.lab.witnesses import hit_rates, prompt_tokens
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.traces.records import Arm, RequestRecord

NAME = "switch"


def rounds(
    prompts: PromptFactory, *, num_units: int, prefix_tokens: int, num_questions: int, output_tokens: int
) -> list[Round]:
    """One round a question, both arms in each."""

    def trial(arm: Arm, index: int, question: str) -> Trial:
        return Trial(
            experiment=NAME,
            arm=arm,
            phase="first" if index == 1 else "measured",
            group=prefix_tokens,
            index=index,
            label=question,
            request=prompts.request(
                family=NAME, arm=arm, number=index, num_units=num_units, question=question, max_tokens=output_tokens
            ),
        )

    known = prompts.texts.questions
    questions = [known[i % len(known)] for i in range(num_questions)]
    return [(trial("on", i, question), trial("off", i, question)) for i, question in enumerate(questions, 1)]


def analyse(records: Sequence[RequestRecord], *, seed: int) -> dict[str, Any]:
    """The experiment's part of the results."""
    arms = {arm: _arm(records, arm, seed) for arm in ("off", "on")}
    return {
        **arms,
        "reduction_percent": {
            name: percent(
                statistics.reduction_percent(arms["off"][f"{name}_ms_median"], arms["on"][f"{name}_ms_median"])
            )
            for name in ("ttft", "e2e")
        },
        "reduction_percent_interval": {
            "ttft": paired_reduction(records, ttft_ms, seed=seed),
            "e2e": paired_reduction(records, e2e_ms, seed=seed),
        },
        "hit_rate_percent": hit_rates([r for r in records if r.arm == "on"]),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
        "hit_rate_percent_off": hit_rates([r for r in records if r.arm == "off"]),
        "rows": _rows(records),
    }


def _arm(records: Sequence[RequestRecord], arm: Arm, seed: int) -> dict[str, Any]:
    first = next((r for r in records if r.arm == arm and r.phase == "first"), None)
    return {
        **summarise(of_arm(records, arm), seed=seed),
        "first_request": None if first is None else {"ttft_ms": ms(ttft_ms(first)), "e2e_ms": ms(e2e_ms(first))},
    }


def _rows(records: Sequence[RequestRecord]) -> list[dict[str, Any]]:
    by_index: dict[int, dict[str, RequestRecord]] = {}
    for record in records:
        by_index.setdefault(record.index, {})[record.arm] = record
    return [_row(index, arms.get("off"), arms.get("on")) for index, arms in sorted(by_index.items())]


def _row(index: int, off: RequestRecord | None, on: RequestRecord | None) -> dict[str, Any]:
    either = off or on
    assert either is not None
    return {
        "index": index,
        "question": either.label,
        "phase": either.phase,
        "prompt_tokens": prompt_tokens(either),
        "on_cached_tokens": None if on is None else read_usage(on.usage).num_cached_tokens,
        "off_ttft_ms": ms(ttft_ms(off)) if off else None,
        "on_ttft_ms": ms(ttft_ms(on)) if on else None,
        "off_e2e_ms": ms(e2e_ms(off)) if off else None,
        "on_e2e_ms": ms(e2e_ms(on)) if on else None,
    }
