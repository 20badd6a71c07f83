"""Token ids of one request to text, piece by piece, until a stop token, a stop string or the limit ends it."""

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.outputs import EngineUsage, RequestOutput, RequestTimes
from anaphora.engine.request import GenerationRequest
from anaphora.engine.stop_strings import StopStringFinder
from anaphora.kvcache.ledger import Ledger, Reason
from anaphora.tokenizer.detokenizer import IncrementalDetokenizer
from anaphora.tokenizer.tokenizer import Tokenizer


class OutputProcessor:
    """Turns the core's outputs of one request into the caller's."""

    def __init__(self, request: GenerationRequest, tokenizer: Tokenizer, *, arrived_s: float) -> None:
        self._request = request
        self._detokenizer = IncrementalDetokenizer(
            tokenizer, request.prompt_token_ids, skip_special_tokens=request.params.skip_special_tokens
        )
        self._stops = StopStringFinder(request.params.stop, include=request.params.include_stop_str_in_output)
        self._times = RequestTimes(arrived_s)
        self._num_output_tokens = 0
        num_prompt_tokens = len(request.prompt_token_ids)
        # until the request is admitted no lookup has been made
        self._ledger = Ledger(num_prompt_tokens, {Reason.BYPASSED: num_prompt_tokens})
        self._num_recomputed_tokens = 0

    def process(self, output: CoreOutput) -> RequestOutput:
        """The caller's view of a core output that is no error.

        If it has a ``finish_reason`` and the core's output has none, a stop string was found: the core must be told.
        """
        self._ledger = output.ledger or self._ledger
        self._num_recomputed_tokens = output.num_recomputed_tokens
        self._num_output_tokens += output.token_id is not None
        text, stop = self._text(output)
        finish_reason = output.finish_reason if stop is None else "stop"
        self._note_times(output, is_finished=finish_reason is not None)
        return RequestOutput(
            request_id=output.request_id,
            text=text,
            token_ids=() if output.token_id is None else (output.token_id,),
            token_times_s=() if output.token_id is None else (output.stepped_s,),
            logprobs=None if output.logprobs is None else (output.logprobs,),
            prompt_logprobs=output.prompt_logprobs,
            finish_reason=finish_reason,
            stop_reason=output.stop_reason if stop is None else stop,
            usage=self._usage(),
            times=self._times,
        )

    def _text(self, output: CoreOutput) -> tuple[str, str | None]:
        """Text to release now, and the stop string found, if any."""
        params = self._request.params
        hides_token = output.finish_reason == "stop" and not params.include_stop_str_in_output
        text = "" if output.token_id is None or hides_token else self._detokenizer.append((output.token_id,))
        if output.finish_reason is not None:
            text += self._detokenizer.flush()
        if self._num_output_tokens <= params.min_tokens:
            return text + (self._stops.flush() if output.finish_reason is not None else ""), None
        text, stop = self._stops.feed(text)
        if stop is None and output.finish_reason is not None:
            text += self._stops.flush()
        return text, stop

    def _note_times(self, output: CoreOutput, *, is_finished: bool) -> None:
        first_token_s = self._times.first_token_s
        if first_token_s is None and output.token_id is not None:
            first_token_s = output.stepped_s
        self._times = RequestTimes(
            arrived_s=self._times.arrived_s,
            scheduled_s=output.scheduled_s,
            first_token_s=first_token_s,
            finished_s=output.stepped_s if is_finished else None,
        )

    def _usage(self) -> EngineUsage:
        return EngineUsage(
            num_prompt_tokens=self._ledger.num_prompt_tokens,
            num_cached_tokens=self._ledger.num_cached_tokens,
            num_output_tokens=self._num_output_tokens,
            num_recomputed_tokens=self._num_recomputed_tokens,
            ledger=self._ledger,
        )
