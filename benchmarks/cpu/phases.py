"""What is measured, in which order. Servers take turns request by request, and who begins changes each time."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import aiohttp
from benchmarks.cpu.client import ChatClient, Reply, ServerFailedError
from benchmarks.cpu.meter import Meter, rest
from benchmarks.cpu.plan import Plan
from benchmarks.cpu.prompts import QUESTIONS, PromptSizer, system_prompt
from benchmarks.cpu.sample import Sample
from benchmarks.cpu.servers import Server

PROBE_WORDS = (40, 440)


@dataclass(slots=True)
class Contestant:
    """A running server and a client for it."""

    server: Server
    client: ChatClient

    @property
    def name(self) -> str:
        return self.server.name


class Course:
    """One run over all contestants. A server that fails is named in a sample and takes no further part."""

    def __init__(self, contestants: Sequence[Contestant], plan: Plan, seed: str) -> None:
        self._contestants = list(contestants)
        self._plan = plan
        self._seed = seed
        self._sizer: PromptSizer | None = None
        self._turn = 0
        self._failures: list[Sample] = []

    async def run(self) -> AsyncIterator[Sample]:
        """All phases, sample by sample."""
        async for sample in self._warm_up():
            yield sample
        phases = {"prefixes": self._prefixes, "burst": self._bursts, "decode": self._decodes}
        for name in self._plan.phases:
            async for sample in phases[name]():
                yield sample
        for sample in self._failures:
            yield sample

    async def _warm_up(self) -> AsyncIterator[Sample]:
        """Two probes a server, which also tell how many tokens a word has. Their prompts are never used again."""
        async for contestant in self._in_turn():
            counts = []
            for num_words in PROBE_WORDS:
                system = system_prompt(f"{self._seed} probe {num_words}", num_words)
                reply = await self._ask(contestant, system, QUESTIONS[0], max_tokens=8)
                if reply is not None:
                    counts.append((num_words, reply.num_prompt_tokens))
                    yield _sample("warm_up_ttft_ms", contestant, reply.ttft_ms, reply)
            if len(counts) == len(PROBE_WORDS):
                self._sizer = self._sizer or PromptSizer.from_probes(*counts)

    async def _prefixes(self) -> AsyncIterator[Sample]:
        """New content of each length, first cold, then hit with other questions."""
        for number in range(self._plan.rounds):
            for length in self._plan.lengths:
                system = self._prompt("prefix", number, length)
                for attempt in range(1 + self._plan.hits_per_round):
                    measure = "hit_ttft_ms" if attempt else "cold_ttft_ms"
                    async for contestant in self._in_turn():
                        meter = Meter(contestant.server)
                        reply = await self._ask(contestant, system, QUESTIONS[attempt % len(QUESTIONS)], max_tokens=1)
                        if reply is not None:
                            yield _sample(measure, contestant, reply.ttft_ms, reply, length, number, meter.read())

    async def _bursts(self) -> AsyncIterator[Sample]:
        """Many at once over one prefix that nobody has seen."""
        plan = self._plan
        for number in range(plan.burst_rounds):
            system = self._prompt("burst", number, plan.burst_length)
            async for contestant in self._in_turn():
                meter = Meter(contestant.server)
                replies = await asyncio.gather(
                    *(
                        self._ask(contestant, system, f"{QUESTIONS[i % len(QUESTIONS)]} ({i})", plan.burst_tokens)
                        for i in range(plan.burst_size)
                    )
                )
                noise = meter.read()
                answered = [reply for reply in replies if reply is not None]
                if len(answered) == plan.burst_size:
                    for sample in _burst_samples(contestant, answered, plan.burst_length, number, noise):
                        yield sample

    async def _decodes(self) -> AsyncIterator[Sample]:
        """One stream of many tokens behind a prompt whose prefix is cached: each server has its own turn first."""
        plan = self._plan
        for number in range(plan.decode_rounds):
            system = self._prompt("decode", number, plan.decode_length)
            async for contestant in self._in_turn():
                await self._ask(contestant, system, QUESTIONS[0], max_tokens=1)
                meter = Meter(contestant.server)
                reply = await self._ask(contestant, system, QUESTIONS[1], max_tokens=plan.decode_tokens)
                if reply is not None:
                    speed = reply.decode_tokens_per_s
                    yield _sample(
                        "decode_tokens_per_s", contestant, speed, reply, plan.decode_length, number, meter.read()
                    )

    def _prompt(self, purpose: str, number: int, length: int) -> str:
        if self._sizer is None:
            raise RuntimeError(f"no server answered the probes: {[f.detail['error'] for f in self._failures]}")
        return system_prompt(f"{self._seed} {purpose} {number} {length}", self._sizer.num_words(length))

    async def _in_turn(self) -> AsyncIterator[Contestant]:
        """The contestants that still take part, each after a rest; a different one begins at each call."""
        self._turn += 1
        start = self._turn % len(self._contestants) if self._contestants else 0
        for contestant in self._contestants[start:] + self._contestants[:start]:
            await rest([c.server for c in self._contestants], self._plan.rest_limit_s)
            yield contestant

    async def _ask(self, contestant: Contestant, system: str, question: str, max_tokens: int) -> Reply | None:
        """One answer, or ``None`` if the server failed, now or before."""
        if contestant not in self._contestants:
            return None
        try:
            return await contestant.client.ask(system, question, max_tokens=max_tokens)
        except (ServerFailedError, aiohttp.ClientError, TimeoutError) as error:
            self._failures.append(
                Sample(measure="failure", server=contestant.name, value=1, detail={"error": repr(error)})
            )
            with contextlib.suppress(ValueError):
                self._contestants.remove(contestant)
            return None


def _burst_samples(
    contestant: Contestant, replies: Sequence[Reply], length: int, number: int, noise: dict[str, float]
) -> list[Sample]:
    """A burst as three numbers: how long it took, how many hit (nine tenths of the prefix cached), median TTFT."""
    total_ms = 1000 * (max(r.done_s for r in replies) - min(r.sent_s for r in replies))
    num_hits = sum((r.num_cached_tokens or 0) >= 0.9 * length for r in replies)
    detail = {"replies": [_facts(r) for r in replies], **noise}
    ttfts = sorted(r.ttft_ms for r in replies)
    values = {"burst_total_ms": total_ms, "burst_hits": num_hits, "burst_ttft_ms": ttfts[len(ttfts) // 2]}
    return [
        Sample(
            measure=measure,
            server=contestant.name,
            value=value,
            length=length,
            round=number,
            detail=detail if measure == "burst_total_ms" else {},
        )
        for measure, value in values.items()
    ]


def _sample(
    measure: str,
    contestant: Contestant,
    value: float,
    reply: Reply,
    length: int | None = None,
    number: int = 0,
    noise: dict[str, float] | None = None,
) -> Sample:
    detail = _facts(reply) | (noise or {})
    return Sample(measure=measure, server=contestant.name, value=value, length=length, round=number, detail=detail)


def _facts(reply: Reply) -> dict[str, Any]:
    facts = asdict(reply)
    facts["text"] = facts["text"][:80]
    return facts
