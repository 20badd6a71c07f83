"""What a request log says of a start of the server and of a request: JSON objects, read by `anaphora simulate`.

Prompts are block digests unless the operator asks for token ids. A digest covers its block and all before it, and is
keyed with a secret that is made at the start and written nowhere: equal beginnings have equal digests within a start,
and nothing else can be told from them. (Token ids, in contrast, are the prompt for whoever has the tokenizer.)
"""

import hashlib
import secrets
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from anaphora import __version__
from anaphora.engine import EngineConfig, GenerationRequest, KVCapacity, RequestOutput

FORMAT_VERSION = 1
DIGEST_BYTES = 8
"""With a million blocks, the odds that two that differ have one digest are 1 to 37 million."""

Content = Literal["digests", "token-ids"]


class DescribedEngine(Protocol):
    """What the first row tells of an engine."""

    @property
    def config(self) -> EngineConfig: ...

    @property
    def kv_capacity(self) -> KVCapacity: ...


@dataclass(frozen=True, slots=True)
class Served:
    """One engine request that has ended, well or not. ``token_ids``: what was generated."""

    request: GenerationRequest
    token_ids: Sequence[int]
    last: RequestOutput


@dataclass(frozen=True, slots=True, kw_only=True)
class RowMaker:
    """Writes the rows of one start. ``started_s`` and ``clock_s`` are one instant in Unix time and on the monotonic
    clock.
    """

    content: Content
    started_s: float
    clock_s: float
    block_size: int
    secret: bytes = field(repr=False)

    @classmethod
    def now(cls, content: Content, block_size: int) -> "RowMaker":
        """Of a start at this moment."""
        return cls(
            content=content,
            started_s=time.time(),
            clock_s=time.monotonic(),
            block_size=block_size,
            secret=secrets.token_bytes(32),
        )

    def start(self, engine: DescribedEngine) -> dict[str, Any]:
        """The first row: what a simulation needs to know of the server."""
        config = engine.config
        return {
            "kind": "server",
            "format_version": FORMAT_VERSION,
            "version": __version__,
            "started_s": self.started_s,
            "content": self.content,
            "block_size": self.block_size,
            "num_blocks": engine.kv_capacity.num_blocks,
            "enable_prefix_caching": config.enable_prefix_caching,
            "eviction_policy": config.eviction_policy,
            "max_num_seqs": config.max_num_seqs,
            "max_num_batched_tokens": config.max_num_batched_tokens,
            "target_prefill_tokens": config.target_prefill_tokens,
        }

    def served(self, served: Served) -> dict[str, Any]:
        """A request: when, whose, how long, which blocks, and what became of its prompt's tokens."""
        request, last = served.request, served.last
        times, usage = last.times, last.usage
        return {
            "kind": "served",
            "arrival_s": round(self.started_s + times.arrived_s - self.clock_s, 6),
            "tenant": self._tenant(request.namespace),
            "prompt_tokens": len(request.prompt_token_ids),
            "output_tokens": len(served.token_ids),
            **self._tokens(request.prompt_token_ids, served.token_ids),
            "lookup": request.lookup and request.params.prompt_logprobs is None,
            "ledger": {reason.value: count for reason, count in usage.ledger.counts.items() if count},
            "recomputed_tokens": usage.num_recomputed_tokens,
            "finish_reason": last.finish_reason or "abort",
            "queue_s": _since(times.scheduled_s, times.arrived_s),
            "ttft_s": _since(times.first_token_s, times.arrived_s),
            "e2e_s": _since(times.finished_s, times.arrived_s),
        }

    def _tokens(self, prompt: Sequence[int], output: Sequence[int]) -> dict[str, Any]:
        if self.content == "token-ids":
            return {"prompt_token_ids": list(prompt), "output_token_ids": list(output)}
        return {"block_digests": self._digests([*prompt, *output[:-1]])}  # the last token sampled is in no block

    def _digests(self, token_ids: Sequence[int]) -> list[str]:
        """One for each full block, each made of the one before it and the block's tokens."""
        packed, width = array("I", token_ids).tobytes(), 4 * self.block_size
        digests: list[str] = []
        parent = b""
        for end in range(width, len(packed) + 1, width):
            block = parent + packed[end - width : end]
            parent = hashlib.blake2b(block, digest_size=DIGEST_BYTES, key=self.secret).digest()
            digests.append(parent.hex())
        return digests

    def _tenant(self, namespace: str) -> str:
        """Empty for the tenant without key and salt."""
        if not namespace:
            return ""
        digest = hashlib.blake2b(namespace.encode(), digest_size=DIGEST_BYTES, key=self.secret, person=b"tenant")
        return digest.hexdigest()


def _since(then_s: float | None, begin_s: float) -> float | None:
    return None if then_s is None else round(then_s - begin_s, 6)
