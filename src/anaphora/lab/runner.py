"""Sends trials one after another and writes what happened, each record on disk before the next request."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from anaphora.errors import TargetError
from anaphora.lab.answers import Answer
from anaphora.lab.arms import Trial
from anaphora.lab.clock import Clock
from anaphora.lab.lag import LoopLag
from anaphora.lab.resets import reset
from anaphora.lab.settled_counters import TRIES, settled_counters
from anaphora.lab.targets.base import Reply, Target
from anaphora.lab.targets.in_turn import InTurn
from anaphora.traces.records import CounterReading, RecordWriter, RequestRecord

MAX_FAILURES_IN_A_ROW = 3
"""After so many the run is cut short: the server is gone, or refuses everything."""


class Notes(Protocol):
    """Told what people should know while they wait."""

    def note(self, text: str) -> None:
        """Something worth a line."""
        ...

    def waiting(self, text: str) -> None:
        """Still waiting; ``text`` is what is known of why. May come often."""
        ...


class Observer(Notes, Protocol):
    """Told what happens, for people to watch."""

    def planned(self, trials: Sequence[Trial], costs_s: Sequence[float] | None) -> None:
        """These trials come now, and should take so long each."""
        ...

    def measured(self, record: RequestRecord) -> None:
        """One more request was answered, or failed."""
        ...


@dataclass(frozen=True, slots=True)
class Expected:
    """What is known of a trial before it is sent; ``None`` where no tokenizer was at hand."""

    num_prompt_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(slots=True)
class Runner:
    """``servers`` are the run's targets by name; an arm without a server of its own uses ``main``."""

    servers: Mapping[str, Target]
    writer: RecordWriter
    observer: Observer
    clock: Clock = time.monotonic_ns
    _last_reading: dict[str, CounterReading | None] = field(default_factory=dict)
    _standing_still: set[str] = field(default_factory=set)
    """Servers whose counters did not move during a request, although they were waited for: caching is off there."""

    async def run(self, trials: Sequence[Trial], expected: Sequence[Expected]) -> list[RequestRecord]:
        """Send all trials. A failed request is a record like any other; :class:`TargetError` after three in a row."""
        records: list[RequestRecord] = []
        failures = 0
        for trial, expectation in zip(trials, expected, strict=True):
            record = await self._measure(trial, expectation)
            records.append(record)
            self.writer.append(record)
            self.observer.measured(record)
            failures = failures + 1 if record.error is not None else 0
            if failures == MAX_FAILURES_IN_A_ROW:
                raise TargetError(f"{failures} requests in a row failed, the last with: {record.error}")
        return records

    async def _measure(self, trial: Trial, expected: Expected) -> RequestRecord:
        name = await self._take_turn(trial.arm)
        server = self.servers[name]
        before = self._last_reading[name] if name in self._last_reading else await server.read_counters()
        refusal = await reset(server) if trial.reset_before else None
        async with LoopLag(self.clock) as lag:
            reply = await self._ask(server, trial)
        if refusal is not None:
            reply.answer.error = f"the cache was not reset before this request: {refusal}"
        after = self._last_reading[name] = await self._settled_counters(name, before)
        answer = reply.answer
        return RequestRecord(
            experiment=trial.experiment,
            arm=trial.arm,
            phase=trial.phase,
            group=trial.group,
            index=trial.index,
            label=trial.label,
            server=name,
            sent_ns=reply.sent_ns,
            first_byte_ns=reply.first_byte_ns,
            first_token_ns=answer.first_token_ns,
            first_answer_ns=answer.first_answer_ns,
            last_token_ns=answer.last_token_ns,
            end_ns=reply.end_ns,
            streamed=answer.streamed,
            connection_reused=reply.connection_reused,
            max_tokens=trial.request.max_tokens,
            num_prompt_tokens=expected.num_prompt_tokens,
            predicted_cached_tokens=expected.cached_tokens,
            num_token_events=answer.num_token_events,
            finish_reason=answer.finish_reason,
            usage=answer.usage,
            worst_loop_lag_ns=lag.worst_ns,
            counters_before=before,
            counters_after=after,
            answer=answer.text,
            error=answer.error,
        )

    async def _take_turn(self, arm: str) -> str:
        """Which server that arm's requests go to. One that was started just now counts from 0 again."""
        if isinstance(self.servers, InTurn) and await self.servers.take_turn(arm):
            self._last_reading.pop(arm, None)
        return arm if arm in self.servers else "main"

    async def _ask(self, server: Target, trial: Trial) -> Reply:
        try:
            return await server.chat(trial.request)
        except TargetError as error:
            now = self.clock()
            return Reply(now, None, now, False, Answer(error=str(error)))

    async def _settled_counters(self, name: str, before: CounterReading | None) -> CounterReading | None:
        """The counters once they include the request just answered. A server that never counts is waited for once."""
        try:
            reading, moved = await settled_counters(
                self.servers[name], before, tries=1 if name in self._standing_still else TRIES
            )
        except TargetError:
            return None
        if moved:
            self._standing_still.discard(name)
        else:
            self._standing_still.add(name)
        return reading
