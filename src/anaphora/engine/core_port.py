"""The way from an event loop to an engine core, whether that is in this process or in another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anaphora.engine.config import EngineConfig
from anaphora.engine.core_output import CoreOutput
from anaphora.engine.core_questions import Question
from anaphora.engine.plan import KVCapacity
from anaphora.engine.request import GenerationRequest
from anaphora.engine.stats import EngineStats
from anaphora.errors import EngineDeadError
from anaphora.types import RequestId

OnOutputs = Callable[[Sequence[CoreOutput]], None]
OnEnd = Callable[[EngineDeadError], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineDescription:
    """What is known of an engine that has loaded its model, and does not change."""

    config: EngineConfig
    """With the token budget of a step that it came to."""
    model_name: str
    """The checkpoint's name."""
    vocab_size: int
    max_model_len: int
    """Prompt and output of one request together, in tokens."""
    is_on_gpu: bool
    kv_capacity: KVCapacity
    device_bytes: Mapping[str, int] = field(default_factory=dict)
    """See :class:`anaphora.engine.plan.EnginePlan`."""


class CorePort(Protocol):
    """One caller's way to the core. All methods and callbacks are for the caller's loop."""

    @property
    def description(self) -> EngineDescription:
        """Of the engine behind it."""

    def listen(self, on_outputs: OnOutputs, on_end: OnEnd) -> None:
        """Say who takes this caller's outputs, a step's at a time, and who hears, once, that nothing more comes."""

    def check_room(self, request_id: RequestId) -> None:
        """Raises ``EngineOverloadedError`` or ``RequestError`` if it is known already that the request is refused."""

    def add(self, request: GenerationRequest) -> None:
        """Queue a request. Every request ends with an output that :attr:`CoreOutput.is_last`, a refused one too.

        Raises:
            RequestError, EngineOverloadedError: as :meth:`check_room`.
        """

    def abort(self, request_id: RequestId) -> None:
        """End a request of this caller; its last output comes unless it has come already."""

    async def ask(self, question: Question) -> Any:
        """What the question's ``answer`` returns or raises.

        Raises:
            EngineDeadError: the engine has stopped.
        """

    async def fetch_stats(self) -> EngineStats:
        """The picture after the last step, of all callers' requests: who has seen a last output finds it counted.

        Raises:
            EngineDeadError: the engine is in another process, and cannot be reached.
        """
