"""What does a computed prompt token cost, and what a cached one?

Cached prefixes of several lengths times new endings of several lengths, so that computed and cached tokens vary apart,
and a staircase: one cached text cut ever later, a few tokens at a time, where the cached count jumps by a block. All
requests go with caching on and have one output token; what is new in them is new in every request.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, ClassVar

from anaphora.errors import ConfigError
from anaphora.lab.arms import Round, Trial
from anaphora.lab.check import Check
from anaphora.lab.command_line import at_least
from anaphora.lab.experiments.base import Experiment, ExperimentSettings, Planner
from anaphora.lab.experiments.staircase import staircase
from anaphora.lab.experiments.summary import of_arm
from anaphora.lab.experiments.two_variable import two_variable
from anaphora.lab.targets.base import ChatRequest
from anaphora.lab.witnesses import hit_rates
from anaphora.traces.records import Phase, RequestRecord

STAIRCASE = "staircase"
_LEAST_UNITS_PER_STEP = 4
_BLOCKS_IN_STAIRCASE = 2
_GOOD_R2 = 0.98


@dataclass(frozen=True, slots=True, kw_only=True)
class CostsSettings(ExperimentSettings):
    """``prefixes`` and ``endings``: lengths in tokens; ``steps``: how many cuts the staircase has, 0 for none."""

    name: ClassVar[str] = "costs"
    prefixes: tuple[int, ...] = (0, 512, 1024, 2048)
    endings: tuple[int, ...] = (32, 256, 1024)
    steps: int = 16
    repeats: int = 6

    def __post_init__(self) -> None:
        at_least(self, repeats=1, steps=0)
        for name, lengths, least in (("--prefixes", self.prefixes, 0), ("--endings", self.endings, 16)):
            if len(set(lengths)) < 2 or len(set(lengths)) < len(lengths) or min(lengths) < least:
                raise ConfigError(f"{name} takes two or more different numbers of at least {least} tokens")

    async def rounds(self, planner: Planner) -> list[Round]:
        """Every cached text is sent once, then one round holds one request of every kind, in random order."""
        cells = [(prefix, ending) for prefix in self.prefixes for ending in self.endings]
        fitting = [cell for cell in cells if planner.fits(sum(cell))]
        for prefix, ending in cells:
            if (prefix, ending) not in fitting:
                planner.note(f"{prefix} + {ending} tokens do not fit the context of {planner.max_model_len}: left out")
        if len({prefix for prefix, _ in fitting}) < 2 or len({ending for _, ending in fitting}) < 2:
            raise ConfigError("too few lengths fit the context: give smaller --prefixes and --endings")
        maker = _Maker(planner)
        units = {length: await planner.units(length) for length in {n for cell in fitting for n in cell} - {0}} | {0: 0}
        has_steps = self.steps > 0 and planner.block_size > 1
        if self.steps and not has_steps:
            planner.note("the cache goes token by token: there are no blocks for a staircase to show")
        base = min((prefix for prefix, _ in fitting if prefix), default=0) if has_steps else 0
        fills = [
            (maker.trial("first", prefix, 0, "fill", units[prefix], units[self.endings[0]]),)
            for prefix in sorted({prefix for prefix, _ in fitting if prefix})
        ]
        cuts = self._cuts(units[base], planner.block_size) if base else []
        if cuts:
            fills.append((maker.trial("first", base, 0, STAIRCASE, cuts[-1] + _LEAST_UNITS_PER_STEP, 0),))
        numbers = range(1, self.repeats + 1)
        return [*fills, *(self._round(maker, number, fitting, units, base, cuts) for number in numbers)]

    def _cuts(self, num_units: int, block_size: int) -> list[int]:
        """Where the staircase's text is cut: evenly, and over so many blocks that a step must be seen. A unit is a
        token or more."""
        width = max(_LEAST_UNITS_PER_STEP, ceil(_BLOCKS_IN_STAIRCASE * block_size / self.steps))
        return [num_units + cut * width for cut in range(self.steps)]

    def _round(
        self,
        maker: "_Maker",
        number: int,
        cells: Sequence[tuple[int, int]],
        units: dict[int, int],
        base: int,
        cuts: Sequence[int],
    ) -> Round:
        grid = [
            maker.trial("measured", prefix, number, f"{prefix} + {ending}", units[prefix], units[ending])
            for prefix, ending in cells
        ]
        steps = [maker.trial("measured", base, number, STAIRCASE, cut, 0) for cut in cuts]
        return (*grid, *steps)


@dataclass(slots=True)
class _Maker:
    """Makes trials whose new parts are all different."""

    planner: Planner
    _num_made: int = 0

    def trial(self, phase: Phase, prefix: int, number: int, label: str, num_units: int, ending_units: int) -> Trial:
        self._num_made += 1
        return Trial(
            experiment=CostsSettings.name,
            arm="on",
            phase=phase,
            group=prefix,
            index=number,
            label=label,
            request=self._request(prefix, label, num_units, ending_units),
        )

    def _request(self, prefix: int, label: str, num_units: int, ending_units: int) -> ChatRequest:
        prompts = self.planner.prompts
        unique = f"{CostsSettings.name}/{self._num_made}"
        kept = STAIRCASE if label == STAIRCASE else str(prefix)
        ending = prompts.texts.system_prompt(prompts.edition(f"{unique}/ending"), ending_units)
        return prompts.request(
            family=f"{CostsSettings.name}/{kept}" if prefix else unique,
            arm="on",
            number=self._num_made,
            num_units=num_units,
            question=ending + prompts.texts.question,
            max_tokens=1,
        )


def analyse(records: Sequence[RequestRecord], *, seed: int) -> dict[str, Any]:
    """The experiment's part of the results."""
    grid = [record for record in records if record.label != STAIRCASE]
    return {
        "two_variable": two_variable(grid, lambda record: record.label, tries_product=True),
        "staircase": staircase([record for record in records if record.label == STAIRCASE]),
        "num_failed": sum(record.error is not None for record in records),
        "hit_rate_percent": hit_rates(records),
        "hit_rate_percent_after_first": hit_rates(of_arm(records, "on")),
    }


def checks(records: Sequence[RequestRecord], seed: int) -> list[Check]:
    """Whether the formula describes the times at all."""
    grid = [record for record in records if record.label != STAIRCASE]
    fit = two_variable(grid, lambda record: record.label, tries_product=True)
    if fit is None or fit["r2"] is None:
        return [Check("costs fit", "unknown", "the requests measured do not separate computed from cached tokens")]
    worst = max(fit["cells"], key=lambda cell: abs(cell["residual_ms"]))
    seen = (
        f"the formula explains R² = {fit['r2']:.4f} of the variation; it is farthest off at {worst['cell']} tokens, by "
        f"{worst['residual_ms']:+.1f} of {worst['ttft_ms']:.1f} ms"
    )
    return [Check("costs fit", "ok" if fit["r2"] >= _GOOD_R2 else "warning", seen.replace("-", "−"))]


EXPERIMENT = Experiment(CostsSettings, analyse, checks)
