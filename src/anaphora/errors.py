"""The one exception tree. Every message says what is wrong and what to do about it, in one line.

    AnaphoraError
    ├── ConfigError            a setting is wrong: the command line prints it and exits with 2
    ├── MissingExtraError      the command needs the extra ``engine``, which is not installed
    ├── CheckpointError        a model cannot be found, read, converted or understood
    ├── TraceError             a trace or a records file cannot be used as asked
    ├── LostProcessError       a process of a simulation was ended from outside, as when memory runs out
    ├── TargetError            a measured server cannot be reached, or answered something that is not an answer
    ├── RequestError           a request to the engine is the caller's mistake (HTTP 400 unless said otherwise)
    │   ├── PromptTooLongError     prompt and output do not fit the context or the KV cache
    │   ├── ChatTemplateError      the chat template refused the messages
    │   └── UnknownModelError      no such model here (HTTP 404)
    ├── PinError               a prefix cannot be pinned: it is not cached, or too much is pinned (HTTP 409)
    ├── EngineStepError        the model failed while computing a request; the engine lives on (HTTP 500)
    │   └── StepMemoryError        the device ran out of memory (HTTP 500)
    ├── EngineOverloadedError  the waiting queue is full: try again later (HTTP 503)
    └── EngineDeadError        the engine has stopped and serves nothing more (HTTP 503)

Scarcity that passes by itself is no error: it is ``None``. A broken invariant is an ``assert``.
"""


class AnaphoraError(Exception):
    """Base of everything that Anaphora raises on purpose."""


class ConfigError(AnaphoraError):
    """A flag, a config key or an environment variable has a value that cannot be used."""


class MissingExtraError(AnaphoraError):
    """A command needs a part that the base install leaves out."""


class CheckpointError(AnaphoraError):
    """A model cannot be found, downloaded, read, converted, or its configuration is not understood."""


class TraceError(AnaphoraError):
    """A trace or records file cannot be read, or lacks what the question needs."""


class LostProcessError(AnaphoraError):
    """A process that did a part of the work was ended before it was done."""


class TargetError(AnaphoraError):
    """A measured server is unreachable, refuses, or answers in a shape that is no completion."""


class RequestError(AnaphoraError):
    """A generation request is wrong. ``param`` names the field, ``code`` is OpenAI's error code if one fits."""

    def __init__(self, message: str, *, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.code = code


class PromptTooLongError(RequestError):
    """Prompt plus requested output exceed the context length, or the prompt alone exceeds the KV cache."""


class ChatTemplateError(RequestError):
    """The checkpoint's chat template refused the messages, took too long or made too much text."""


class UnknownModelError(RequestError):
    """The request names a model that this server does not serve."""


class PinError(AnaphoraError):
    """A prefix cannot be pinned: nothing of it is cached, or more of the cache would be pinned than may be."""


class EngineStepError(AnaphoraError):
    """The model failed while computing a request; the engine lives on and the request may be sent again."""


class StepMemoryError(EngineStepError):
    """The device had no memory for a step. Other steps may well fit, so however often this comes, the engine lives."""


class EngineOverloadedError(AnaphoraError):
    """More requests wait than the server is willing to hold."""


class EngineDeadError(AnaphoraError):
    """The engine loop has ended, by shutdown or by a fault; nothing more will be served."""
