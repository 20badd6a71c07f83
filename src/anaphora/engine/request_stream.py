"""The loop's end of one request: outputs wait here until the caller takes them."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from anaphora.engine.output_processor import OutputProcessor
from anaphora.engine.outputs import RequestOutput
from anaphora.errors import AnaphoraError


class RequestStream:
    """Outputs of one request, joined while nobody takes them. Belongs to the event loop's thread."""

    def __init__(self, processor: OutputProcessor) -> None:
        self.processor = processor
        self.is_closed = False
        """Whether the last output, or an error, is in."""
        self._pending: list[RequestOutput] = []
        self._error: AnaphoraError | None = None
        self._news = asyncio.Event()

    def push(self, output: RequestOutput) -> None:
        """Add an output; one with a ``finish_reason`` closes the stream."""
        self._pending.append(output)
        self.is_closed = output.finish_reason is not None
        self._news.set()

    def fail(self, error: AnaphoraError) -> None:
        """Close the stream with an error."""
        self._error = error
        self.is_closed = True
        self._news.set()

    async def take(self) -> RequestOutput:
        """Everything that is new; waits for it.

        Raises:
            AnaphoraError: the request has failed.
        """
        await self._news.wait()
        if self._pending:
            output = join_outputs(self._pending)
            self._pending.clear()
            if self._error is None:
                self._news.clear()
            return output
        assert self._error is not None
        raise self._error


def join_outputs(outputs: Sequence[RequestOutput]) -> RequestOutput:
    """Successive outputs of one request, at least one, as one."""
    last = outputs[-1]
    if len(outputs) == 1:
        return last
    logprobs = [entry for output in outputs for entry in output.logprobs or ()]
    return replace(
        last,
        text="".join([output.text for output in outputs]),
        token_ids=tuple([token_id for output in outputs for token_id in output.token_ids]),
        token_times_s=tuple([time_s for output in outputs for time_s in output.token_times_s]),
        logprobs=tuple(logprobs) if any(output.logprobs is not None for output in outputs) else None,
        prompt_logprobs=next((o.prompt_logprobs for o in outputs if o.prompt_logprobs is not None), None),
    )
