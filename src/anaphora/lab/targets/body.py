"""A whole answer as bytes, for questions that are not timed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.answers import no_json
from anaphora.lab.masking import Masking


@dataclass(slots=True)
class Body:
    """A :class:`~anaphora.lab.http.BodySink` that only keeps the bytes."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    data: bytearray = field(default_factory=bytearray)

    def begin(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    def feed(self, ns: int, piece: bytes) -> None:
        self.data += piece

    def masked(self, masking: Masking) -> "Body":
        """The same, with every key that the server echoes masked."""
        headers = {name: masking.text(value) for name, value in self.headers.items()}
        return Body(self.status, headers, bytearray(masking.data(bytes(self.data))))

    def json(self) -> Any:
        """The body's value; :class:`TargetError` if it is no JSON."""
        try:
            return json.loads(bytes(self.data))
        except ValueError as error:
            content_type = self.headers.get("content-type", "")
            raise TargetError(no_json(self.status, content_type, bytes(self.data))) from error
