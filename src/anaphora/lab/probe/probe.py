"""One probe from beginning to end: step after step, each finding told as it is made."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.clock import Clock
from anaphora.lab.probe import (
    block_size,
    branches,
    capacity,
    eviction,
    filling,
    held_back,
    isolation,
    minimum,
    retention,
    steps,
)
from anaphora.lab.probe.asking import Asked, Asker, LimitReachedError, Pause
from anaphora.lab.probe.finding import Bound, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import LADDER, Basis, probe_reuse
from anaphora.lab.probe.reuse import NAME as REUSE
from anaphora.lab.probe.settings import ProbeSettings
from anaphora.lab.targets.base import PromptTokenizer, Target

_MAX_RUNGS = 3
_ROOM_FOR_TEMPLATE = 64


@dataclass(frozen=True, slots=True)
class Watcher:
    """Told what happens, for people to watch. ``on_step``: a step's name as it begins."""

    on_step: Callable[[str], None] = lambda _: None
    on_asked: Callable[[Asked], None] = lambda _: None
    on_finding: Callable[[Finding], None] = lambda _: None


@dataclass(slots=True)
class Probe:
    """``target`` is asked; ``other`` is the same server with a second key. ``published``: what it says of its cache."""

    target: Target
    tokenizer: PromptTokenizer
    settings: ProbeSettings
    run_id: str
    other: Target | None = None
    max_model_len: int | None = None
    published: Mapping[str, Any] = field(default_factory=dict)
    watcher: Watcher = field(default_factory=Watcher)
    clock: Clock = time.monotonic_ns
    pause: Pause = asyncio.sleep
    findings: list[Finding] = field(default_factory=list)
    asker: Asker = field(init=False)
    _prompts: WordPrompts = field(init=False)

    def __post_init__(self) -> None:
        self.asker = Asker(self.target, self.settings.max_tokens, self.watcher.on_asked, self.clock)
        self._prompts = WordPrompts(self.run_id)

    async def run(self) -> list[Finding]:
        """All steps. Raises :class:`TargetError` if the first question cannot be asked at all."""
        self._begin(REUSE)
        basis, finding = await probe_reuse(self.asker, self._prompts, self._lengths())
        self._take(finding)
        if finding.value == "no":
            return self.findings
        if basis.is_told:
            block, least = await self._steps_by_count(basis)
        else:
            block, least = await self._steps_by_time(basis)
        await self._isolation(basis)
        await self._room(basis, block, least)
        return self.findings

    async def _steps_by_count(self, basis: Basis) -> tuple[int | None, int]:
        """Block size, minimum, what is held back, branches. Returns the block size, and
        how many words surely are enough to be reused."""
        asker, prompts = self.asker, self._prompts
        partings: list[block_size.Parting] = []
        block = _tokens(
            await self._step(
                block_size.NAME, block_size.QUESTION, block_size.probe_block_size(asker, prompts, basis, partings)
            )
        )
        least = _tokens(
            await self._step(
                minimum.NAME,
                minimum.QUESTION,
                minimum.probe_minimum(asker, prompts, basis, partings, block_size=block),
            )
        )
        await self._step(
            held_back.NAME,
            held_back.QUESTION,
            held_back.probe_held_back(asker, prompts, basis, block_size=block, minimum=least),
        )
        await self._step(branches.NAME, branches.QUESTION, branches.probe_branches(asker, prompts, basis))
        enough = basis.num_words if block is None or least is None else 2 * max(block, least, _ROOM_FOR_TEMPLATE)
        return block, enough

    async def _steps_by_time(self, basis: Basis) -> tuple[int | None, int]:
        self._begin(block_size.NAME)
        for finding in await steps.probe_steps_by_time(self.asker, self._prompts, basis, self.tokenizer):
            self._take(finding)
        return None, basis.num_words

    async def _isolation(self, basis: Basis) -> None:
        await self._step(
            isolation.SALTS, isolation.SALT_QUESTION, isolation.probe_salts(self.asker, self._prompts, basis)
        )
        await self._step(
            isolation.KEYS, isolation.KEY_QUESTION, isolation.probe_keys(self.asker, self._prompts, basis, self.other)
        )

    async def _room(self, basis: Basis, block: int | None, least_words: int) -> None:
        """Retention before capacity: what is lost for its age is not lost for want of room."""
        asker, prompts = self.asker, self._prompts
        kept = retention.Kept()

        async def keep() -> Finding:
            nonlocal kept
            kept, finding = await retention.probe_retention(
                asker, prompts, basis, max_wait_s=self.settings.max_wait_s, pause=self.pause
            )
            return finding

        await self._step(retention.NAME, retention.QUESTION, keep())
        self._begin(capacity.NAME)
        is_judged = basis.judge is not None and basis.is_reliable
        filled = None
        if is_judged:
            filled = await filling.fill(asker, prompts, basis, block_size=block, max_model_len=self.max_model_len)
        order = await self._step(
            eviction.NAME,
            eviction.QUESTION,
            eviction.probe_eviction(asker, prompts, basis, filled, kept, least_words=least_words),
        )
        self._take(capacity.capacity_finding(filled, basis, kept, None if order.value is None else str(order.value)))

    async def _step(self, name: str, question: str, work: Awaitable[Finding]) -> Finding:
        """One step; what ends it early is its finding."""
        self._begin(name)
        try:
            finding = await work
        except LimitReachedError:
            finding = unknown(name, question, "--max-tokens is used up")
        except TargetError as error:
            finding = unknown(name, question, str(error))
        return self._take(finding)

    def _begin(self, name: str) -> None:
        self.asker.step = name
        self.watcher.on_step(name)

    def _take(self, finding: Finding) -> Finding:
        blocks, size = _number(self.published.get("num_gpu_blocks")), _number(self.published.get("block_size"))
        said = size if finding.name == block_size.NAME else None
        if finding.name == capacity.NAME and blocks is not None and size is not None:
            said = blocks * size
        finding = finding if said is None else replace(finding, published=f"{said:,} tokens")
        self.findings.append(finding)
        self.watcher.on_finding(finding)
        return finding

    def _lengths(self) -> list[int]:
        """The lengths at which reuse is looked for, in words, as far as the model's context and --max-tokens allow."""
        first = self.settings.prompt_words
        limit = self.settings.max_tokens // 8
        if self.max_model_len is not None:
            limit = min(limit, self.max_model_len - _ROOM_FOR_TEMPLATE)
        ladder = [first * LADDER**power for power in range(_MAX_RUNGS)]
        return [first, *(length for length in ladder[1:] if length <= limit)]


def _tokens(finding: Finding) -> int | None:
    """A number of tokens that holds exactly."""
    is_exact = finding.bound is Bound.EXACT and finding.unit == "tokens"
    return finding.value if is_exact and isinstance(finding.value, int) else None


def _number(label: object) -> int | None:
    """A count from a metrics label, which is text."""
    text = str(label)
    return int(text) if text.isdigit() else None
