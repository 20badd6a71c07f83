"""The comparison's rows: what is compared, by which statistic, and which figure is aimed at."""

from dataclasses import dataclass
from typing import Literal

Statistic = Literal["median", "least", "slope"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table.

    The aim is ``factor`` times the figure of the server ``against`` in the same run or, without one, ``factor`` itself;
    ``sense`` tells on which side of it ours should be. A row without a factor is shown for information only.
    """

    name: str
    unit: str
    measure: str
    length: int | None = None
    statistic: Statistic = "median"
    factor: float | None = None
    against: str | None = None
    sense: Literal["at most", "at least"] = "at most"

    @property
    def rule(self) -> str:
        """The aim in words, such as ``at most 0.8 x vllm``."""
        return f"{self.sense} {self.factor:g}" + (f" x {self.against}" if self.against else "")


def _against(measure: str, what: str, aims: list[tuple[int, str, float]]) -> tuple[Row, ...]:
    return tuple(
        Row(
            name=f"{what}, {length} tokens, against {peer}",
            unit="ms",
            measure=measure,
            length=length,
            factor=factor,
            against=peer,
        )
        for length, peer, factor in aims
    )


AIMED = (
    *_against(
        "cold_ttft_ms",
        "cold prefill TTFT",
        [(1024, "vllm", 0.8), (1024, "llamacpp", 0.58), (3072, "vllm", 0.8), (3072, "llamacpp", 0.58)],
    ),
    *_against(
        "hit_ttft_ms",
        "hit TTFT",
        [
            (1024, "vllm", 0.6),
            (1024, "llamacpp", 0.75),
            (2048, "vllm", 0.65),
            (3072, "vllm", 0.65),
            (3072, "llamacpp", 0.4),
        ],
    ),
    Row(
        name="slope of hit TTFT over cached tokens",
        unit="ms per 1000 tokens",
        measure="hit_ttft_ms",
        statistic="slope",
        factor=1.0,
        against="vllm",
    ),
    Row(
        name="16 at once over an uncached prefix: requests that hit",
        unit="requests",
        measure="burst_hits",
        statistic="least",
        factor=15,
        sense="at least",
    ),
    Row(
        name="16 at once over an uncached prefix: total time",
        unit="ms",
        measure="burst_total_ms",
        factor=0.6,
        against="vllm",
    ),
    Row(
        name="decoding, one stream",
        unit="tokens/s",
        measure="decode_tokens_per_s",
        factor=1.3,
        against="vllm",
        sense="at least",
    ),
    Row(
        name="host work of a hit, 3072 tokens: lookup, scheduling, tokenising, HTTP",
        unit="ms",
        measure="host_ttft_ms",
        length=3072,
        factor=6.0,
    ),
    Row(name="start to ready", unit="s", measure="ready_s", factor=6.0),
    Row(name="idle memory when ready", unit="MiB", measure="idle_pss_mib", factor=1.2 * 1024),
)

SHOWN = (
    *(
        Row(name=f"cold prefill TTFT, {n} tokens", unit="ms", measure="cold_ttft_ms", length=n)
        for n in (256, 512, 2048)
    ),
    *(Row(name=f"hit TTFT, {n} tokens", unit="ms", measure="hit_ttft_ms", length=n) for n in (256, 512)),
    Row(
        name="slope of cold TTFT over prompt tokens",
        unit="ms per 1000 tokens",
        measure="cold_ttft_ms",
        statistic="slope",
    ),
    Row(name="16 at once: median TTFT", unit="ms", measure="burst_ttft_ms"),
    Row(name="memory after the run, idle", unit="MiB", measure="final_pss_mib"),
    Row(name="CPU use while idle", unit="% of a core", measure="idle_cpu_percent"),
)
