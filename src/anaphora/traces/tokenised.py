"""Texts and chats of a trace into token ids, by whatever encoder the caller has."""

from array import array
from collections.abc import Callable, Sequence
from dataclasses import replace

from anaphora.errors import RequestError, TraceError
from anaphora.traces.findings import FindingKind, Findings
from anaphora.traces.request import ChatPrompt, TextPrompt, TokenPrompt, Trace, TraceRequest

Encoder = Callable[[TextPrompt | ChatPrompt], Sequence[int]]


def needs_tokenizer(trace: Trace) -> bool:
    """Whether any prompt is text."""
    return any(isinstance(request.prompt, TextPrompt | ChatPrompt) for request in trace.requests)


def tokenised(trace: Trace, encode: Encoder) -> Trace:
    """The same trace with every prompt as tokens or block ids. Prompts that ``encode`` refuses are left out and said.

    Raises:
        TraceError: no request is left.
    """
    findings = Findings()
    kept = [request for one in trace.requests if (request := _tokenise(one, encode, findings)) is not None]
    if not kept:
        raise TraceError(f"{trace.path} has no prompt that can be tokenised: {'; '.join(map(str, findings.all()))}")
    return replace(trace, requests=tuple(kept), findings=trace.findings + findings.all())


def _tokenise(request: TraceRequest, encode: Encoder, findings: Findings) -> TraceRequest | None:
    if not isinstance(request.prompt, TextPrompt | ChatPrompt):
        return request
    try:
        token_ids = array("I", encode(request.prompt))
    except (RequestError, ValueError) as error:
        findings.add(FindingKind.UNREADABLE_PROMPT, request.line, " ".join(str(error).split()))
        return None
    if not token_ids:
        findings.add(FindingKind.EMPTY_PROMPT, request.line)
        return None
    return request._replace(prompt=TokenPrompt(token_ids))
