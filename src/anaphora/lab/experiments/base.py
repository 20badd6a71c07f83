"""What an experiment is to the rest of the lab: settings that know their rounds, and an analysis of what came of
them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from anaphora.lab.arms import Round
from anaphora.lab.check import Check
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.sizing import CountTokens, largest_fit
from anaphora.traces.records import RequestRecord

_TEMPLATE_TOKENS = 96
"""Room for the chat template and the question beside the system prompt."""


@dataclass(frozen=True, slots=True)
class Planner:
    """What settings may use to make their rounds. ``max_model_len``: prompt and answer must fit; ``None``: unknown."""

    prompts: PromptFactory
    count: CountTokens
    max_model_len: int | None
    note: Callable[[str], None]
    block_size: int = 1
    """Of the target's cache in tokens, as it publishes it, else the usual one."""

    def fits(self, prefix_tokens: int, output_tokens: int = 1) -> bool:
        """Whether the context has room for such a prefix, the template, a question, and the answer."""
        longest = self.longest_prefix(output_tokens)
        return longest is None or prefix_tokens <= longest

    def longest_prefix(self, output_tokens: int = 1) -> int | None:
        """Tokens of the longest prefix for which the context has room; ``None``: its size is not known."""
        return None if self.max_model_len is None else self.max_model_len - _TEMPLATE_TOKENS - output_tokens

    async def units(self, num_tokens: int) -> int:
        """Units of text whose system prompt has at most so many tokens, and nearly so many."""
        texts, edition = self.prompts.texts, self.prompts.sample_edition("size")
        return await largest_fit(lambda n: texts.system_prompt(edition, n), num_tokens, self.count)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExperimentSettings(ABC):
    """Settings whose defaults finish in minutes, and which refuse what cannot be."""

    name: ClassVar[str]

    @abstractmethod
    async def rounds(self, planner: Planner) -> list[Round]:
        """What is to be sent; :class:`~anaphora.errors.ConfigError` for what the target has no room for."""


def _no_checks(records: Sequence[RequestRecord], seed: int) -> list[Check]:
    return []


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment as the registry has it.

    ``analyse(records, seed=seed)`` gives the experiment's part of ``results.json``, with ``hit_rate_percent`` and
    ``hit_rate_percent_after_first`` by witness; ``checks`` are its own questions to the records, beside those that
    every run is asked.
    """

    settings: type[ExperimentSettings]
    analyse: Callable[..., dict[str, Any]]
    checks: Callable[[Sequence[RequestRecord], int], list[Check]] = _no_checks

    @property
    def name(self) -> str:
        return self.settings.name


def stored_settings(run_settings: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """An experiment's settings as the header of the records has them; older headers hold all of them side by side."""
    experiments = run_settings["experiments"]
    return dict(experiments[name]) if isinstance(experiments, Mapping) else run_settings
