"""The routes that are about the server: health, version, metrics, and what only the operator may do."""

from pydantic_core import from_json
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from anaphora import __version__
from anaphora.errors import EngineDeadError
from anaphora.server.access import Access
from anaphora.server.backend import Backend
from anaphora.server.errors import CacheInUseError
from anaphora.server.json_response import json_response
from anaphora.server.metrics import CONTENT_TYPE, Metrics
from anaphora.server.peers import Peers, Topic
from anaphora.server.request_log import MAX_REMEMBERED_ANSWERS, RequestLog


class OperatorRoutes:
    """Endpoints beside the API."""

    def __init__(self, backend: Backend, access: Access, metrics: Metrics, log: RequestLog, peers: Peers) -> None:
        self._backend = backend
        self._access = access
        self._metrics = metrics
        self._peers = peers
        peers.answer(Topic.ACCOUNTS, log.packed_accounts)

    async def health(self, http: Request) -> Response:
        """``GET /health``: 200 while the engine runs, 503 afterwards. Open to all."""
        if not self._backend.is_healthy:
            raise EngineDeadError("the engine has stopped")
        return Response()

    async def version(self, http: Request) -> Response:
        """``GET /version``. Open to all."""
        return json_response({"version": __version__})

    async def metrics(self, http: Request) -> Response:
        """``GET /metrics`` in Prometheus' text format."""
        self._access.require_metrics_reader(http)
        return Response(await self._metrics.text(), media_type=CONTENT_TYPE)

    async def reset_prefix_cache(self, http: Request) -> Response:
        """``POST /reset_prefix_cache``: all cached blocks are forgotten, or none (409) while requests hold some."""
        self._access.require_operator(http)
        if not await self._backend.reset_prefix_cache():
            raise CacheInUseError("nothing was reset, as running requests hold blocks: try again when none runs")
        return json_response({"reset": True})

    async def cache_request(self, http: Request) -> Response:
        """``GET /cache/requests/{id}``: the ledgers of one of the last answers, in the operator's view."""
        self._access.require_operator(http)
        answer_id = http.path_params["id"]
        found = next(filter(None, await self._peers.gather(Topic.ACCOUNTS, answer_id)), None)
        if found is None:
            raise HTTPException(404, f"no answer {answer_id!r} among the last {MAX_REMEMBERED_ANSWERS}")
        return json_response({"id": answer_id, "requests": from_json(found)})
