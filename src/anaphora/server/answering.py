"""The common way of chat and text completions: run the job, then answer whole or as a stream."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Protocol

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from anaphora.engine import EngineUsage, RequestOutput
from anaphora.protocol.answers import Usage
from anaphora.protocol.openai import GenerationFields
from anaphora.protocol.sse import ENCODED_DONE, encode_event
from anaphora.server.backend import Backend
from anaphora.server.connection import until_disconnect
from anaphora.server.event_stream import EventStream
from anaphora.server.generation import Choice, Job, Outputs, run
from anaphora.server.latency import LatencyHistograms
from anaphora.server.request_log import RequestLog
from anaphora.server.usage import usage_of


class AnswerFormat(Protocol):
    """How one kind of completion is written. One object serves one HTTP request."""

    def answer(self, choices: Sequence[Choice], usage: Usage) -> object:
        """The whole answer as a JSON object."""

    def chunk(self, index: int, output: RequestOutput) -> object | None:
        """A choice's new part as a JSON object; ``None`` if there is nothing to tell yet."""

    def usage_chunk(self, usage: Usage) -> object:
        """The last object of a stream whose usage was asked for."""


class Answerer:
    """Runs jobs and writes their answers."""

    def __init__(self, backend: Backend, latencies: LatencyHistograms, log: RequestLog) -> None:
        self._backend = backend
        self._latencies = latencies
        self._log = log

    async def answer(self, http: Request, asked: GenerationFields, job: Job, form: AnswerFormat) -> Response:
        """The response to ``asked``; the job is aborted as soon as the client goes away.

        Raises:
            AnaphoraError: the engine refuses the job, or fails before its first output.
            ClientDisconnect: the client went away before there was anything to send.
        """
        outputs = run(self._backend, job.requests, self._latencies)
        if not asked.stream:
            whole = await until_disconnect(http.receive, self._whole(outputs, asked, job, form))
            return Response(whole, headers=_headers(job), media_type="application/json")
        events = self._events(outputs, asked, job, form)
        try:
            first = await until_disconnect(http.receive, anext(events))
        except BaseException:
            await events.aclose()
            raise
        return EventStream(first, events, _headers(job))

    async def _whole(self, outputs: Outputs, asked: GenerationFields, job: Job, form: AnswerFormat) -> bytes:
        choices = [Choice() for _ in job.requests]
        async with aclosing(outputs):
            async for index, output in outputs:
                choices[index].take(output)
        usage = self._usage([choice.usage for choice in choices], asked, job)
        return to_json(form.answer(choices, usage))

    async def _events(
        self, outputs: Outputs, asked: GenerationFields, job: Job, form: AnswerFormat
    ) -> AsyncGenerator[bytes, None]:
        usages: list[EngineUsage | None] = [None] * len(job.requests)
        async with aclosing(outputs):
            async for index, output in outputs:
                usages[index] = output.usage
                chunk = form.chunk(index, output)
                if chunk is not None:
                    yield encode_event(to_json(chunk))
        usage = self._usage(usages, asked, job)
        if asked.includes_usage_chunk:
            yield encode_event(to_json(form.usage_chunk(usage)))
        yield ENCODED_DONE

    def _usage(self, usages: Sequence[EngineUsage | None], asked: GenerationFields, job: Job) -> Usage:
        known = [usage for usage in usages if usage is not None]
        assert len(known) == len(job.requests), "every request ends with an output"
        self._log.remember(job.answer_id, known)
        tokenizer = self._backend.tokenizer if asked.include_ledger else None
        return usage_of(known, num_samples=job.num_samples, ledger_tokenizer=tokenizer)


def _headers(job: Job) -> dict[str, str]:
    return {"X-Request-Id": job.answer_id}
