"""JSON answers."""

from pydantic_core import to_json
from starlette.responses import Response


def json_response(content: object) -> Response:
    """``content`` as JSON, with status 200."""
    return Response(to_json(content), media_type="application/json")
