"""What is measured on one server, in a fixed order; every number becomes a sample at once."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

from benchmarks.cpu.sample import Sample
from benchmarks.gpu.serving.burst import burst
from benchmarks.gpu.serving.client import Client, Reply
from benchmarks.gpu.serving.prompts import QUESTION_TOKENS, Texts

LENGTHS = (353, 1337, 3961, 16000, 30000)
BURSTS = {4096: 4, 30000: 2}
"""How often, by tokens of the shared prefix."""
NUM_CLIENTS = 64
CLIENT_PROCESSES = 4
BURST_OUTPUT = 128
DECODE_CONTEXT = 4096
DECODE_OUTPUT = 256
WARM_UPS = ((300, 2), (2000, 2), (4000, 2), (8000, 1))
"""Prompt tokens, and how often: their texts are never used again."""


@dataclass(frozen=True, slots=True)
class Amounts:
    """How often each thing is measured."""

    lengths: Sequence[int] = LENGTHS
    """Of the prompts with a prefix, in tokens."""
    colds: int = 20
    hits: int = 20
    bursts: Mapping[int, int] = field(default_factory=lambda: BURSTS)
    decodes: int = 3


class Course:
    """All measurements on one server."""

    def __init__(self, server: str, port: int, model: str, texts: Texts, amounts: Amounts) -> None:
        self._server = server
        self._port, self._model = port, model
        self._client = Client(port, model)
        self._texts = texts
        self._made: dict[tuple[int, str], str] = {}
        """Texts that are sent again: to make one takes longer than a hit, and a client that has it rests less."""
        self._amounts = amounts
        self._overhead = 0

    def run(self, phases: Sequence[str]) -> Iterator[Sample]:
        """The phases one after another: ``prefixes``, ``decode``, ``bursts``."""
        probe = self._client.ask(self._texts.text(32, "probe"), self._texts.question("probe"), max_tokens=1)
        self._overhead = probe.num_prompt_tokens - 32 - QUESTION_TOKENS
        for length, times in WARM_UPS:
            for number in range(times):
                self._ask(length, f"warm up {number}", "warm up", 4)
        for phase in phases:
            yield from {"prefixes": self._prefixes, "decode": self._decodes, "bursts": self._bursts}[phase]()

    def _prefixes(self) -> Iterator[Sample]:
        for length in self._amounts.lengths:
            for number in range(self._amounts.colds):
                reply = self._ask(length, f"prefix {number}", f"cold {number}", 1)
                yield self._sample("cold_ttft_ms", reply.ttft_ms, reply, length, number)
            for number in range(self._amounts.hits):
                reply = self._ask(length, f"prefix {self._amounts.colds - 1}", f"hit {number}", 1)
                yield self._sample("hit_ttft_ms", reply.ttft_ms, reply, length, number)

    def _decodes(self) -> Iterator[Sample]:
        for number in range(self._amounts.decodes):
            reply = self._ask(DECODE_CONTEXT, "decode", f"decode {number}", DECODE_OUTPUT)
            yield self._sample("tpot_ms", reply.tpot_ms, reply, DECODE_CONTEXT, number)

    def _bursts(self) -> Iterator[Sample]:
        """Many clients at once, whose prompts begin with one document that was sent before."""
        for length, times in self._amounts.bursts.items():
            self._ask(length, "burst", "before", 1)
            for number in range(times):
                replies = self._burst(length, number)
                total_s = max(r.done_s for r in replies) - min(r.sent_s for r in replies)
                num_cached = sum(r.num_cached_tokens or 0 for r in replies)
                facts = {"num_clients": len(replies), "num_cached_tokens": num_cached}
                yield Sample(
                    measure="burst_total_s",
                    server=self._server,
                    value=total_s,
                    length=length,
                    round=number,
                    detail=facts,
                )
                for reply in replies:
                    yield self._sample("burst_ttft_ms", reply.ttft_ms, reply, length, number)

    def _burst(self, length: int, number: int) -> list[Reply]:
        questions = [self._texts.question(f"burst {number} {index}") for index in range(NUM_CLIENTS)]
        system = self._text(length, "burst")
        return burst(
            self._port, self._model, system, questions, max_tokens=BURST_OUTPUT, num_processes=CLIENT_PROCESSES
        )

    def _text(self, length: int, seed: str) -> str:
        """A system prompt that makes a prompt of ``length`` tokens with template and question."""
        if (length, seed) not in self._made:
            self._made = {(length, seed): self._texts.text(length - self._overhead - QUESTION_TOKENS, seed)}
        return self._made[length, seed]

    def _ask(self, length: int, document: str, question: str, max_tokens: int) -> Reply:
        return self._client.ask(self._text(length, document), self._texts.question(question), max_tokens=max_tokens)

    def _sample(self, measure: str, value: float, reply: Reply, length: int, number: int) -> Sample:
        return Sample(
            measure=measure, server=self._server, value=value, length=length, round=number, detail=asdict(reply)
        )
