"""What does prefix caching give your own prompts?"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from anaphora.lab.arms import Round
from anaphora.lab.command_line import at_least, named
from anaphora.lab.experiments.base import Experiment, ExperimentSettings, Planner
from anaphora.lab.experiments.grouped import analyse, grouped_rounds
from anaphora.lab.workloads.own_prompts import read_chats


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptsSettings(ExperimentSettings):
    """``limit``: at most so many requests, the first of the file."""

    name: ClassVar[str] = "prompts"
    file: str = field(default="", metadata=named(""))
    output_tokens: int = 16
    limit: int = 60

    def __post_init__(self) -> None:
        at_least(self, output_tokens=1, limit=2)

    async def rounds(self, planner: Planner) -> list[Round]:
        """In the order of the file, both arms side by side."""
        chats, notes = read_chats(Path(self.file), max_tokens=self.output_tokens, limit=self.limit)
        for note in notes:
            planner.note(note)
        return await grouped_rounds(self.name, chats, planner)


EXPERIMENT = Experiment(PromptsSettings, analyse)
