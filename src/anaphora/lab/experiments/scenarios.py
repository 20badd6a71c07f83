"""What does prefix caching give the usual kinds of prompts?"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from anaphora.errors import ConfigError
from anaphora.lab.arms import Round
from anaphora.lab.command_line import at_least
from anaphora.lab.experiments.base import Experiment, ExperimentSettings, Planner
from anaphora.lab.experiments.grouped import analyse, grouped_rounds
from anaphora.lab.workloads.chats import Chat
from anaphora.lab.workloads.scenarios import SCENARIOS, ScenarioMaker


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenariosSettings(ExperimentSettings):
    """``context_tokens``: about how long the shared part is; ``only``: names of scenarios, all if empty."""

    name: ClassVar[str] = "scenarios"
    context_tokens: int = 800
    requests: int = 6
    output_tokens: int = 16
    only: tuple[str, ...] = field(default=())
    text_seed: int = 0

    def __post_init__(self) -> None:
        at_least(self, context_tokens=32, requests=2, output_tokens=1)
        unknown = [name for name in self.only if name not in SCENARIOS]
        if unknown:
            raise ConfigError(f"no scenario {unknown[0]!r}: --only takes {', '.join(SCENARIOS)}")

    async def rounds(self, planner: Planner) -> list[Round]:
        """Scenario after scenario, both arms side by side."""
        return await grouped_rounds(self.name, self._chats(planner), planner)

    def _chats(self, planner: Planner) -> Sequence[Chat]:
        return [
            chat
            for name in self.only or SCENARIOS
            for chat in ScenarioMaker(
                random.Random(f"{self.text_seed}/{name}"),
                planner.prompts.texts,
                self.requests,
                self.context_tokens,
                self.output_tokens,
            ).chats(name)
        ]


EXPERIMENT = Experiment(ScenariosSettings, analyse)
