"""How does the gain grow with the length of the shared prefix?

One output token, so that TTFT is nearly all prefill. For each length the on arm sends one request that fills the
cache, shown apart, then repeats; the off arm repeats what must miss. The simple lines are least squares through the
medians of the lengths.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal

from anaphora.errors import ConfigError
from anaphora.lab import statistics
from anaphora.lab.arms import Round, Trial
from anaphora.lab.check import Check
from anaphora.lab.command_line import at_least
from anaphora.lab.experiments.base import Experiment, ExperimentSettings, Planner
from anaphora.lab.experiments.lines import fit_rows, line_as_stored, slope_reduction, with_repeats
from anaphora.lab.experiments.summary import (
    ms,
    of_arm,
    paired_difference,
    paired_reduction,
    percent,
    summarise,
)
from anaphora.lab.experiments.two_variable import two_variable
from anaphora.lab.timings import ttft_ms
from anaphora.lab.witnesses import cached_tokens, hit_rates, prompt_tokens
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.traces.records import Arm, RequestRecord

_PER_ROW = ("ttft_ms_interval", "ttft_ms_tail", "num_requests", "num_failed", "num_not_streamed", "num_without_token")
_GOOD_R2 = 0.98
UP_TO_CONTEXT: Final = "max"
_LEAST, _SHORTEST, _NEARLY = 16, 256, 0.8


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientSettings(ExperimentSettings):
    """The seed documents' procedure by default, but for a sixth repeat: five give a median no interval at 95 %, and two
    runs that differ by 5 % are told apart 77 to 85 times in 100 by five and 91 to 96 times by six.

    ``lengths`` are of the shared prefix, in tokens; ``max``: doubled from 256 up to the greatest for which the context
    has room.
    """

    name: ClassVar[str] = "gradient"
    lengths: tuple[int, ...] | Literal["max"] = (256, 512, 1024, 2048, 3072)
    repeats: int = 6

    def __post_init__(self) -> None:
        at_least(self, repeats=1)
        if self.lengths == UP_TO_CONTEXT:
            return
        if not self.lengths or min(self.lengths) < _LEAST or len(set(self.lengths)) < len(self.lengths):
            raise ConfigError("--lengths takes different numbers of at least 16 tokens, like 256,512,1024")

    async def rounds(self, planner: Planner) -> list[Round]:
        """For each length a round that fills the cache, then ``repeats`` rounds with both arms."""
        plan: list[Round] = []
        for length in self._fitting_lengths(planner):
            units = await planner.units(length)
            plan.append((self._trial(planner.prompts, "on", length, units, 0),))
            plan += [
                (
                    self._trial(planner.prompts, "on", length, units, index),
                    self._trial(planner.prompts, "off", length, units, index),
                )
                for index in range(1, self.repeats + 1)
            ]
        return plan

    def _fitting_lengths(self, planner: Planner) -> list[int]:
        """The lengths that the context has room for, ascending; the others are left out aloud."""
        wanted = _up_to_context(planner) if self.lengths == UP_TO_CONTEXT else sorted(self.lengths)
        fitting = [length for length in wanted if planner.fits(length)]
        for length in wanted[len(fitting) :]:
            planner.note(f"a prefix of {length} tokens does not fit the context of {planner.max_model_len}: left out")
        if not fitting:
            raise ConfigError(f"no prefix length fits the context of {planner.max_model_len}: give smaller --lengths")
        return fitting

    def _trial(self, prompts: PromptFactory, arm: Arm, length: int, num_units: int, index: int) -> Trial:
        return Trial(
            experiment=self.name,
            arm=arm,
            phase="measured" if index else "first",
            group=length,
            index=index,
            label=f"{length}-token prefix",
            request=prompts.request(
                family=f"{self.name}/{length}",
                arm=arm,
                number=index,
                num_units=num_units,
                question=prompts.texts.question,
                max_tokens=1,
            ),
        )


def _up_to_context(planner: Planner) -> list[int]:
    longest = planner.longest_prefix()
    if longest is None:
        raise ConfigError("the target does not tell its context: give the lengths, like --lengths 256,1024,4096")
    doubled = [_SHORTEST << i for i in range(longest.bit_length()) if _SHORTEST << i < _NEARLY * longest]
    return [length for length in (*doubled, longest) if length >= _LEAST]


def analyse(records: Sequence[RequestRecord], *, seed: int) -> dict[str, Any]:
    """The experiment's part of the results."""
    lengths = sorted({record.group for record in records})
    rows = [_row(length, [r for r in records if r.group == length], seed) for length in lengths]
    lines = with_repeats(fit_rows(rows), rows, records, seed)
    return {
        "rows": rows,
        "fit": {name: None if line is None else line_as_stored(line) for name, line in lines.items()},
        "slope_reduction_percent": percent(slope_reduction(lines)),
        "pays": pays(rows),
        "two_variable": two_variable(records, lambda record: f"{record.arm} {record.group}"),
        "hit_rate_percent": hit_rates([r for r in records if r.arm == "on"]),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
        "hit_rate_percent_off": hit_rates([r for r in records if r.arm == "off"]),
    }


def pays(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """From which measured prompt length on caching pays: there and at every longer one the interval of the paired
    difference lies above 0. Nothing is said of lengths in between or beyond."""
    told = [row for row in rows if row["saved_ms_paired"]["interval"] is not None]
    shown = [row["saved_ms_paired"]["interval"]["low"] > 0 for row in told]
    start = len(shown) - next((i for i, gains in enumerate(reversed(shown)) if not gains), len(shown))
    return {
        "from_prompt_tokens": told[start]["prompt_tokens"] if start < len(told) else None,
        "not_shown_at_prompt_tokens": told[start - 1]["prompt_tokens"] if start else None,
        "num_lengths": len(told),
    }


def _row(length: int, records: Sequence[RequestRecord], seed: int) -> dict[str, Any]:
    arms = {arm: summarise(of_arm(records, arm)) for arm in ("off", "on")}
    off, on = arms["off"]["ttft_ms_median"], arms["on"]["ttft_ms_median"]
    first = next((r for r in records if r.phase == "first"), None)
    counts = [count for r in records if r.phase == "measured" and (count := prompt_tokens(r)) is not None]
    cached = [count for r in of_arm(records, "on") if (count := cached_tokens(r)) is not None]
    return {
        "prefix_tokens": length,
        "prompt_tokens": statistics.median(counts),
        "cached_tokens": statistics.median(cached),
        "off_ttft_ms": off,
        "on_ttft_ms": on,
        "saved_ms": None if off is None or on is None else ms(off - on),
        "saved_ms_paired": paired_difference(records, ttft_ms),
        "reduction_percent": percent(statistics.reduction_percent(off, on)),
        "reduction_percent_interval": paired_reduction(records, ttft_ms, seed=seed),
        "first_request_ttft_ms": None if first is None else ms(ttft_ms(first)),
        **{f"{arm}_{name}": arms[arm][name] for arm in ("off", "on") for name in _PER_ROW},
    }


def checks(records: Sequence[RequestRecord], seed: int) -> list[Check]:
    """Whether a line describes the off times at all."""
    line = analyse(records, seed=seed)["fit"]["off"]
    if line is None or line["r2"] is None or line["num_points"] < 3:
        return [Check("lines fit", "unknown", "too few lengths to tell whether a line describes them")]
    seen = f"the line through the off times explains R² = {line['r2']:.4f} of their variation"
    return [Check("lines fit", "ok" if line["r2"] >= _GOOD_R2 else "warning", seen)]


EXPERIMENT = Experiment(GradientSettings, analyse, checks)
