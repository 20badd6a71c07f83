"""Errors become OpenAI's error object with the right status; nobody sees a traceback."""

from collections.abc import Mapping

from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from anaphora.errors import (
    AnaphoraError,
    EngineDeadError,
    EngineOverloadedError,
    PinError,
    RequestError,
    UnknownModelError,
)
from anaphora.protocol.answers import ErrorAnswer

RETRY_AFTER_S = 1


class WrongKeyError(RequestError):
    """No API key, or one that is not known (HTTP 401)."""


class ForbiddenError(RequestError):
    """The route is the operator's, and this request is not shown to be his (HTTP 403)."""


class SlowBodyError(RequestError):
    """The body took longer than the server waits (HTTP 408)."""


class BodyTooLargeError(RequestError):
    """The body is longer than the server reads (HTTP 413)."""


class HeadTooLargeError(RequestError):
    """The request line and headers are longer than the server reads (HTTP 431)."""


class ClientGoneError(RequestError):
    """The client closed its side of the connection before its answer was there (499, as nginx calls it)."""


class CacheInUseError(RequestError):
    """The prefix cache was not reset, since requests hold blocks of it (HTTP 409)."""


_STATUS: Mapping[type[Exception], int] = {
    WrongKeyError: 401,
    ForbiddenError: 403,
    UnknownModelError: 404,
    SlowBodyError: 408,
    CacheInUseError: 409,
    PinError: 409,
    BodyTooLargeError: 413,
    HeadTooLargeError: 431,
    ClientGoneError: 499,
    RequestError: 400,
    EngineOverloadedError: 503,
    EngineDeadError: 503,
}
_HEADERS: Mapping[type[Exception], Mapping[str, str]] = {
    WrongKeyError: {"WWW-Authenticate": "Bearer"},
    SlowBodyError: {"Connection": "close"},
    BodyTooLargeError: {"Connection": "close"},
    EngineOverloadedError: {"Retry-After": str(RETRY_AFTER_S)},
}
_CODES: Mapping[int, str] = {
    400: "invalid_value",
    401: "invalid_api_key",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "body_too_slow",
    409: "cache_in_use",
    413: "body_too_large",
    431: "head_too_large",
    499: "client_closed_request",
    500: "internal_error",
    503: "unavailable",
}
_OWN_CODES: Mapping[type[Exception], str] = {PinError: "cannot_pin"}

_ROUTERS_WORDS: Mapping[str, str] = {"Not Found": "no such path", "Method Not Allowed": "not allowed on this path"}


def status_of(error: Exception) -> int:
    """The HTTP status that an error means; 500 for what nobody foresaw."""
    if isinstance(error, HTTPException):
        return error.status_code
    return next((_STATUS[cls] for cls in type(error).__mro__ if cls in _STATUS), 500)


def error_answer(error: Exception) -> ErrorAnswer:
    """The JSON object that tells a client about an error."""
    status = status_of(error)
    code = getattr(error, "code", None) or _OWN_CODES.get(type(error)) or _CODES.get(status, "error")
    told = isinstance(error, AnaphoraError | HTTPException)
    message = (error.detail if isinstance(error, HTTPException) else str(error)) if told else "internal server error"
    return {
        "error": {
            "message": message,
            "type": "invalid_request_error" if status < 500 else "server_error",
            "param": getattr(error, "param", None),
            "code": code,
        }
    }


async def error_response(request: Request, error: Exception) -> Response:
    """Starlette's exception handler for everything."""
    status = status_of(error)
    headers = dict(_HEADERS.get(type(error), getattr(error, "headers", None) or {}))
    if isinstance(error, HTTPException) and error.detail in _ROUTERS_WORDS:
        error = HTTPException(status, f"{_ROUTERS_WORDS[error.detail]}: {request.method} {request.url.path}")
    return Response(to_json(error_answer(error)), status, headers, media_type="application/json")
