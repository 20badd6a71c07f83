"""Errors on their way to another process: those that callers are meant to tell apart, and all others as one."""

import msgspec

from anaphora.errors import (
    AnaphoraError,
    EngineDeadError,
    EngineOverloadedError,
    EngineStepError,
    PinError,
    PromptTooLongError,
    RequestError,
    StepMemoryError,
)

_REQUEST_KINDS: dict[str, type[RequestError]] = {cls.__name__: cls for cls in (RequestError, PromptTooLongError)}
_KINDS: dict[str, type[AnaphoraError]] = {
    cls.__name__: cls for cls in (PinError, EngineStepError, StepMemoryError, EngineOverloadedError, EngineDeadError)
}


class RemoteError(Exception):
    """A bug on the engine's side, whose log has the traceback. To clients it is an internal error."""


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An error. ``kind``: its class, if it is one of those above."""

    kind: str
    message: str
    param: str | None = None
    code: str | None = None


def failure_of(error: Exception) -> Failure:
    """The message for an error."""
    kind = type(error).__name__
    if isinstance(error, RequestError) and kind in _REQUEST_KINDS:
        return Failure(kind, str(error), error.param, error.code)
    return Failure(kind if kind in _KINDS else "", str(error) if kind in _KINDS else repr(error))


def error_of(failure: Failure) -> AnaphoraError | RemoteError:
    """The error of a message."""
    if failure.kind in _REQUEST_KINDS:
        return _REQUEST_KINDS[failure.kind](failure.message, param=failure.param, code=failure.code)
    if failure.kind in _KINDS:
        return _KINDS[failure.kind](failure.message)
    return RemoteError(failure.message)
