"""What goes between an engine and a caller in another process, as MessagePack.

Both ends are started from the same files, so there is one version. Still, what comes is checked against these types
and becomes nothing else: no message can make the other side run anything.
"""

from array import array

import msgspec

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_port import EngineDescription
from anaphora.engine.core_questions import Question
from anaphora.engine.outputs import FinishReason, PositionLogprobs
from anaphora.engine.remote.failures import Failure, error_of, failure_of
from anaphora.engine.request import GenerationRequest
from anaphora.engine.sampling_params import SamplingParams
from anaphora.engine.stats import EngineStats
from anaphora.errors import AnaphoraError, EngineStepError
from anaphora.kvcache.ledger import Ledger
from anaphora.types import Namespace, RequestId


class Add(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Caller to engine: a request, checked already. ``prompt``: token ids of 4 bytes each, in the machine's order."""

    request_id: RequestId
    prompt: bytes
    params: SamplingParams
    namespace: Namespace
    lookup: bool

    @classmethod
    def of(cls, request: GenerationRequest) -> "Add":
        """The message for a request."""
        prompt = request.prompt_token_ids
        packed = prompt if isinstance(prompt, array) and prompt.typecode == "I" else array("I", prompt)
        return cls(request.request_id, packed.tobytes(), request.params, request.namespace, request.lookup)

    def request(self) -> GenerationRequest:
        """The request of the message."""
        prompt = array("I")
        prompt.frombytes(self.prompt)
        return GenerationRequest(
            request_id=self.request_id,
            prompt_token_ids=prompt,
            params=self.params,
            namespace=self.namespace,
            lookup=self.lookup,
        )


class Abort(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Caller to engine: end a request."""

    request_id: RequestId


class Ask(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Caller to engine: a question to the core, or for the stats (``None``). ``number`` comes back with the answer."""

    number: int
    question: Question | None


class Aside(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Both ways: something that is not the engine's concern."""

    payload: bytes


class Welcome(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Engine to caller, first of all: the model is loaded, requests may come."""

    description: EngineDescription


class Output(msgspec.Struct, frozen=True, array_like=True):
    """One :class:`CoreOutput`. A request's ledger comes once, with the first output that has it."""

    request_id: RequestId
    token_id: int | None
    finish_reason: FinishReason | None
    stop_reason: int | None
    num_recomputed_tokens: int
    scheduled_s: float | None
    stepped_s: float
    ledger: Ledger | None
    logprobs: PositionLogprobs | None
    prompt_logprobs: tuple[PositionLogprobs | None, ...] | None
    error: Failure | None

    @classmethod
    def of(cls, output: CoreOutput, *, with_ledger: bool) -> "Output":
        """The message for an output."""
        return cls(
            output.request_id,
            output.token_id,
            output.finish_reason,
            output.stop_reason,
            output.num_recomputed_tokens,
            output.scheduled_s,
            output.stepped_s,
            output.ledger if with_ledger else None,
            output.logprobs,
            output.prompt_logprobs,
            None if output.error is None else failure_of(output.error),
        )

    def core_output(self) -> CoreOutput:
        """The output of the message."""
        return CoreOutput(
            request_id=self.request_id,
            token_id=self.token_id,
            logprobs=self.logprobs,
            prompt_logprobs=self.prompt_logprobs,
            finish_reason=self.finish_reason,
            stop_reason=self.stop_reason,
            ledger=self.ledger,
            num_recomputed_tokens=self.num_recomputed_tokens,
            scheduled_s=self.scheduled_s,
            stepped_s=self.stepped_s,
            error=None if self.error is None else _told(self.error),
        )


def _told(failure: Failure) -> AnaphoraError:
    error = error_of(failure)
    return error if isinstance(error, AnaphoraError) else EngineStepError(str(error))


class Outputs(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Engine to caller: what one step brought its requests."""

    outputs: list[Output]


class Answer(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Engine to caller: the answer to a question, in MessagePack of the type that the question names."""

    number: int
    content: msgspec.Raw


class Refusal(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Engine to caller: the error in place of an answer."""

    number: int
    failure: Failure


class End(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Engine to caller: the engine has stopped, and why."""

    reason: str


ToEngine = Add | Abort | Ask | Aside
ToCaller = Welcome | Outputs | Answer | Refusal | End | Aside

_encoder = msgspec.msgpack.Encoder()
_from_caller: msgspec.msgpack.Decoder[ToEngine] = msgspec.msgpack.Decoder(ToEngine)
_from_engine: msgspec.msgpack.Decoder[ToCaller] = msgspec.msgpack.Decoder(ToCaller)


def encode(message: object) -> bytes:
    """Any message, or any answer."""
    return _encoder.encode(message)


def decode_to_engine(data: memoryview) -> ToEngine:
    """A caller's message.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _from_caller.decode(data)


def decode_to_caller(data: memoryview) -> ToCaller:
    """The engine's message.

    Raises:
        msgspec.DecodeError: it is none.
    """
    return _from_engine.decode(data)


def decode_answer(question: Question | None, content: msgspec.Raw) -> object:
    """The answer to ``question`` (``None``: the stats)."""
    return msgspec.msgpack.decode(content, type=EngineStats if question is None else question.answer_type)
