"""Any trace file into a :class:`Trace`: the format is told by the first row, or by the caller."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anaphora.errors import TraceError
from anaphora.traces.base import TraceReader
from anaphora.traces.coding_sessions import CodingSessionReader
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.lines import first_line, json_rows
from anaphora.traces.mooncake import BailianReader, MooncakeReader
from anaphora.traces.openai_requests import OpenAIReader
from anaphora.traces.order import by_arrival
from anaphora.traces.request import HashedPrompt, Trace, TraceRequest
from anaphora.traces.request_log import RequestLogReader
from anaphora.traces.token_ids import TokenIdReader

_READERS: tuple[type[TraceReader], ...] = (
    CodingSessionReader,
    BailianReader,
    TokenIdReader,
    MooncakeReader,
    OpenAIReader,
    RequestLogReader,
)
TRACE_FORMATS: Mapping[str, type[TraceReader]] = MappingProxyType({reader.name: reader for reader in _READERS})
"""The formats by name; told apart in this order."""

_WITHOUT_PREFIXES = {
    "a BurstGPT trace": {"Timestamp", "Request tokens", "Response tokens"},
    "an Azure LLM inference trace": {"TIMESTAMP", "ContextTokens", "GeneratedTokens"},
    "a table of lengths": {"num_prefill_tokens", "num_decode_tokens"},
}
_ROWS_LOOKED_AT = 20


def read_trace(path: Path, *, format_name: str | None = None, block_size: int | None = None) -> Trace:
    """Read a file, compressed or not. ``block_size``: tokens a block id stands for, if not what the format says.

    Raises:
        TraceError: the file cannot be read, is of no known format, holds no prefixes, or not one useful request.
    """
    reader_class = _detect(path) if format_name is None else _named(format_name)
    block_size = block_size or reader_class.default_block_size
    if reader_class.default_block_size is None:
        block_size = None
    findings = Findings()
    reader = reader_class(block_size, findings)
    requests: list[TraceRequest] = []
    num_rows = 0
    for row in json_rows(path, findings):
        try:
            requests += reader.read(row)
        except KeyError as error:
            findings.add(FindingKind.DAMAGED, row.line, f"{error.args[0]} is missing")
        except (ValueError, TypeError) as error:
            findings.add(FindingKind.DAMAGED, row.line, str(error))
        else:
            num_rows += 1
    _expect_useful(path, requests, num_rows, findings, block_size)
    ordered = by_arrival(requests, Findings() if reader_class.interleaves else findings)
    if not any(isinstance(request.prompt, HashedPrompt) for request in requests):
        block_size = None  # of AIPerf's rows, all texts: what block ids would stand for says nothing about those
    trace = Trace(path, reader_class.name, block_size, num_rows, ordered, findings.all())
    if isinstance(reader, RequestLogReader):
        return replace(trace, block_size=reader.block_size, served_by=reader.served_by())
    return trace


def _named(name: str) -> type[TraceReader]:
    if name not in TRACE_FORMATS:
        raise TraceError(f"trace format {name!r} is not known; choose one of: {', '.join(TRACE_FORMATS)}")
    return TRACE_FORMATS[name]


def _detect(path: Path) -> type[TraceReader]:
    head = first_line(path)
    _refuse_lengths_only(path, head)
    findings = Findings()
    rows = [row.value for row in islice(json_rows(path, findings), _ROWS_LOOKED_AT)]
    for value in rows:
        _refuse_records(path, value)
        for reader in _READERS:
            if reader.recognises(value):
                return reader
    if _is_one_document(head, rows):
        raise TraceError(
            f"{path} is one JSON document: a trace has a request in each line; `jq -c '.[]' FILE` makes one of a list"
        )
    if not rows:
        raise TraceError(f"{path} has no row of JSON: {'; '.join(map(str, findings.all()))}")
    names = "|".join(TRACE_FORMATS)
    raise TraceError(
        f"{path} is no trace of a known format; if it is one, name it (--format, for a load --trace-format): {names}"
    )


def _refuse_lengths_only(path: Path, head: str) -> None:
    columns = {column.strip().strip('"') for column in head.split(",")}
    for name, known in _WITHOUT_PREFIXES.items():
        if known <= columns:
            raise TraceError(
                f"{path} is {name}: it has times or lengths but nothing that tells which prompts begin alike, "
                "so no cache question can be answered from it; give a trace with block hashes, token ids or messages"
            )


def _is_one_document(head: str, rows: Sequence[Any]) -> bool:
    """Whether the file is a list of objects in one line, or an object or a list over many."""
    return (not rows and head in ("[", "{", "[{")) or (len(rows) == 1 and isinstance(rows[0], list))


def _refuse_records(path: Path, value: Any) -> None:
    if isinstance(value, dict) and value.get("kind") in ("run", "request") and "hash_ids" not in value:
        raise TraceError(
            f"{path} holds records of `anaphora bench`: counts and times, not the prompts themselves; its report has "
            "the predicted hit rate, and other questions need a trace with token ids or messages, or a request log "
            "(`anaphora serve --request-log`)"
        )


def _expect_useful(
    path: Path, requests: list[TraceRequest], num_rows: int, findings: Findings, block_size: int | None
) -> None:
    num_wrong = findings.count(FindingKind.WRONG_BLOCK_COUNT)
    if num_wrong > len(requests):
        raise TraceError(
            f"{path}: in {num_wrong} of {num_rows} rows the number of block ids does not fit blocks of {block_size} "
            "tokens: give the trace's own block size with --trace-block-size"
        )
    if not requests:
        reasons = "; ".join(map(str, findings.all())) or "it has no rows"
        raise TraceError(f"{path} has no request that can be replayed: {reasons}")
