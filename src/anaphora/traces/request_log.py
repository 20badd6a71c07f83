"""Request logs of `anaphora serve --request-log`: what our own server was asked, and what it reused.

A row of kind ``server`` begins each start; ``served`` rows are requests in the order in which they ended; ``reset``
says that the cache was emptied, ``lost`` how many requests could not be written.

Prompts are token ids or digests of blocks. Digests become numbers that stand for every token of their block, so that
equal beginnings have equal tokens; blocks without a digest are like no others. After a start or a reset nothing is
equal to what was before it.
"""

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from anaphora.errors import TraceError
from anaphora.traces.base import as_object
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import Row, get_count, get_number, get_text
from anaphora.traces.request import ServedBy, TokenPrompt, TraceRequest
from anaphora.traces.request_body import token_ids
from anaphora.types import Namespace

FORMAT_VERSION = 1


class RequestLogReader:
    """See the module."""

    name: ClassVar[str] = "request-log"
    default_block_size: ClassVar[int | None] = None
    interleaves: ClassVar[bool] = True

    def __init__(self, block_size: int | None, findings: Findings) -> None:
        self._findings = findings
        self._server: dict[str, Any] | None = None
        self._era = 0
        """Starts and resets so far: nothing is shared between two eras."""
        self._numbers: dict[tuple[int, str], int] = {}
        self._num_unnamed = 0
        self._num_requests = 0
        self._ledger: Counter[str] = Counter()

    @staticmethod
    def recognises(value: Any) -> bool:
        return isinstance(value, dict) and value.get("kind") == "server" and "content" in value

    @property
    def block_size(self) -> int | None:
        """Tokens that a digest stands for; ``None`` in a log of token ids."""
        server = self._server
        return None if server is None or server["content"] == "token-ids" else int(server["block_size"])

    def served_by(self) -> ServedBy | None:
        """The server of the last start, and what it made of all prompts."""
        if self._server is None:
            return None
        return ServedBy(
            num_blocks=self._server["num_blocks"],
            block_size=self._server["block_size"],
            eviction_policy=self._server["eviction_policy"],
            max_num_seqs=self._server["max_num_seqs"],
            max_num_batched_tokens=self._server["max_num_batched_tokens"],
            target_prefill_tokens=self._server["target_prefill_tokens"],
            num_requests=self._num_requests,
            num_tokens_by_reason=dict(self._ledger),
        )

    def read(self, row: Row) -> Iterable[TraceRequest]:
        value = as_object(row.value)
        match value.get("kind"):
            case "server":
                self._start(value, row.line)
            case "reset":
                self._begin_era(row.line)
            case "lost":
                self._findings.add(FindingKind.LOST, row.line, count=get_count(value, "count") or 0)
            case "served":
                yield self._request(value, row.line)
            case kind:
                raise ValueError(f"unknown kind {kind!r}")

    def _start(self, value: dict[str, Any], line: int) -> None:
        if value.get("format_version") != FORMAT_VERSION:
            raise TraceError(
                f"the request log has format version {value.get('format_version')}, this release reads {FORMAT_VERSION}"
            )
        before, self._server = self._server, {**value, "target_prefill_tokens": _target_of(value, line)}
        if before is None:
            return
        if (before["content"], before["block_size"]) != (value["content"], value["block_size"]):
            raise TraceError(f"from line {line} on the log has other contents or blocks: make it two files there")
        self._begin_era(line)

    def _begin_era(self, line: int) -> None:
        self._era += 1
        self._findings.add(FindingKind.EMPTIED, line)

    def _request(self, value: dict[str, Any], line: int) -> TraceRequest:
        if self._server is None:
            raise TraceError("a request log begins with a row of kind server: this one has lost its first rows")
        num_prompt, num_output = get_count(value, "prompt_tokens"), get_count(value, "output_tokens")
        if not num_prompt or num_output is None:
            raise ValueError("prompt_tokens and output_tokens must be there")
        if self._server["content"] == "token-ids":
            prompt, output = token_ids(value["prompt_token_ids"]), token_ids(value["output_token_ids"])
        else:
            tokens = self._tokens(value["block_digests"], num_prompt + num_output)
            prompt, output = tokens[:num_prompt], tokens[num_prompt:]
        ledger = {str(reason): count for reason, count in as_object(value["ledger"]).items()}
        if sum(ledger.values()) != len(prompt):
            raise ValueError("the ledger does not add up to the prompt's tokens")
        self._ledger.update(ledger)
        self._num_requests += 1
        tenant = get_text(value, "tenant") or ""
        return TraceRequest(
            line=line,
            arrival_s=get_number(value, "arrival_s"),
            prompt=TokenPrompt(prompt),
            num_output_tokens=len(output),
            output_token_ids=output,
            namespace=Namespace(f"{self._era}/{tenant}" if self._era else tenant),
            lookup=value.get("lookup") is not False,
        )

    def _tokens(self, digests: Sequence[str], num_tokens: int) -> "array[int]":
        """As many tokens as were known, each the number of its block."""
        block_size = self.block_size
        assert block_size is not None
        if len(digests) > num_tokens // block_size:
            raise ValueError(f"{len(digests)} digests for {num_tokens} tokens in blocks of {block_size}")
        numbers = [self._numbers.setdefault((self._era, digest), self._new_number()) for digest in digests]
        tokens = array("I", [number for number in numbers for _ in range(block_size)])
        tokens.extend([self._new_number()] * (num_tokens - len(tokens)))
        return tokens

    def _new_number(self) -> int:
        self._num_unnamed += 1
        return self._num_unnamed


def _target_of(value: dict[str, Any], line: int) -> int:
    """Servers of earlier logs, which do not name it, let anybody into a step that had room."""
    try:
        return get_count(value, "target_prefill_tokens") or 0
    except ValueError as error:
        raise TraceError(f"line {line} of the request log: {error}") from None
