"""The ASGI application: routes, and one place where every error becomes an answer."""

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from anaphora.errors import AnaphoraError
from anaphora.server.access import Access
from anaphora.server.answering import Answerer
from anaphora.server.api import Api
from anaphora.server.backend import Backend
from anaphora.server.cache_routes import CacheRoutes
from anaphora.server.connection import client_gone
from anaphora.server.errors import error_response
from anaphora.server.latency import LatencyHistograms
from anaphora.server.metrics import Metrics
from anaphora.server.openai_routes import OpenAIRoutes
from anaphora.server.operator_routes import OperatorRoutes
from anaphora.server.peers import Alone, Peers
from anaphora.server.request_log import RequestLog
from anaphora.server.settings import ServerSettings
from anaphora.server.tokenizer_routes import TokenizerRoutes


def build_app(backend: Backend, settings: ServerSettings, peers: Peers | None = None) -> Starlette:
    """The server for one engine, one of several with ``peers``. It neither starts nor stops the engine."""
    peers = peers or Alone()
    access = Access(settings)
    latencies = LatencyHistograms()
    log = RequestLog(backend.tokenizer)
    api = Api(backend, settings, access)
    openai = OpenAIRoutes(api, Answerer(backend, latencies, log))
    text = TokenizerRoutes(api)
    name, is_public = settings.served_model_names[0], settings.public_metrics
    metrics = Metrics(backend, latencies, name, peers=peers, is_public=is_public)
    cache = CacheRoutes(api)
    operator = OperatorRoutes(backend, access, metrics, log, peers)
    return Starlette(
        routes=[
            Route("/v1/chat/completions", openai.chat_completions, methods=["POST"]),
            Route("/v1/completions", openai.completions, methods=["POST"]),
            Route("/v1/models", openai.models),
            Route("/v1/models/{model:path}", openai.model),
            Route("/tokenize", text.tokenize, methods=["POST"]),
            Route("/detokenize", text.detokenize, methods=["POST"]),
            Route("/health", operator.health),
            Route("/version", operator.version),
            Route("/metrics", operator.metrics),
            Route("/cache/requests/{id}", operator.cache_request),
            Route("/cache/tree", cache.tree),
            Route("/cache/pins", cache.pins),
            Route("/cache/pins", cache.pin, methods=["POST"]),
            Route("/cache/pins/{id}", cache.unpin, methods=["DELETE"]),
            Route("/reset_prefix_cache", operator.reset_prefix_cache, methods=["POST"]),
        ],
        exception_handlers={
            AnaphoraError: error_response,
            HTTPException: error_response,
            ClientDisconnect: _client_gone,
            Exception: error_response,
        },
    )


async def _client_gone(request: Request, error: Exception) -> Response:
    return await error_response(request, client_gone())
