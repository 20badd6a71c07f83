"""Does prefix caching help when short questions follow one long system prompt, and by how much?

Eight questions in both arms. The first question of an arm is shown apart: in the on arm it is the one that fills the
cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from anaphora.errors import ConfigError
from anaphora.lab import statistics
from anaphora.lab.arms import Round, Trial
from anaphora.lab.command_line import at_least, named
from anaphora.lab.experiments.base import Experiment, ExperimentSettings, Planner
from anaphora.lab.experiments.summary import ms, of_arm, paired_difference, paired_reduction, percent, summarise
from anaphora.lab.timings import e2e_ms, ttft_ms
from anaphora.lab.witnesses import cached_tokens, hit_rates, prompt_tokens
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.traces.records import Arm, RequestRecord

_MOST_QUESTIONS = 10_000
"""All prompts are made before the first is sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchSettings(ExperimentSettings):
    """The seed documents' procedure by default. ``prefix_tokens``: length of the system prompt."""

    name: ClassVar[str] = "switch"
    prefix_tokens: int = 1500
    num_questions: int = field(default=8, metadata=named("questions"))
    output_tokens: int = 64

    def __post_init__(self) -> None:
        at_least(self, prefix_tokens=16, num_questions=2, output_tokens=1)
        if self.num_questions > _MOST_QUESTIONS:
            raise ConfigError(f"--questions must be at most {_MOST_QUESTIONS:,}")

    async def rounds(self, planner: Planner) -> list[Round]:
        """One round a question, both arms in each."""
        if not planner.fits(self.prefix_tokens, self.output_tokens):
            raise ConfigError(
                f"a system prompt of {self.prefix_tokens} tokens does not fit the context of {planner.max_model_len}: "
                "give a smaller --prefix-tokens"
            )
        num_units = await planner.units(self.prefix_tokens)
        known = planner.prompts.texts.questions
        questions = [known[i % len(known)] for i in range(self.num_questions)]
        return [
            (
                self._trial(planner.prompts, "on", num_units, index, question),
                self._trial(planner.prompts, "off", num_units, index, question),
            )
            for index, question in enumerate(questions, 1)
        ]

    def _trial(self, prompts: PromptFactory, arm: Arm, num_units: int, index: int, question: str) -> Trial:
        return Trial(
            experiment=self.name,
            arm=arm,
            phase="first" if index == 1 else "measured",
            group=self.prefix_tokens,
            index=index,
            label=question,
            request=prompts.request(
                family=self.name,
                arm=arm,
                number=index,
                num_units=num_units,
                question=question,
                max_tokens=self.output_tokens,
            ),
        )


def analyse(records: Sequence[RequestRecord], *, seed: int) -> dict[str, Any]:
    """The experiment's part of the results."""
    arms = {arm: _arm(records, arm) for arm in ("off", "on")}
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
        "saved_ms_paired": {
            "ttft": paired_difference(records, ttft_ms),
            "e2e": paired_difference(records, e2e_ms),
        },
        "hit_rate_percent": hit_rates([r for r in records if r.arm == "on"]),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
        "hit_rate_percent_off": hit_rates([r for r in records if r.arm == "off"]),
        "rows": _rows(records),
    }


def _arm(records: Sequence[RequestRecord], arm: Arm) -> dict[str, Any]:
    first = next((r for r in records if r.arm == arm and r.phase == "first"), None)
    return {
        **summarise(of_arm(records, arm)),
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
        "on_cached_tokens": None if on is None else cached_tokens(on),
        "off_ttft_ms": ms(ttft_ms(off)) if off else None,
        "on_ttft_ms": ms(ttft_ms(on)) if on else None,
        "off_e2e_ms": ms(e2e_ms(off)) if off else None,
        "on_e2e_ms": ms(e2e_ms(on)) if on else None,
    }


EXPERIMENT = Experiment(SwitchSettings, analyse)
