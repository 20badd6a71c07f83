"""Which server this is, as far as it tells, and how each kind is made to show and to use its prefix cache."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerKind:
    """Advice for one kind of server; ``owner`` is what its model list gives as ``owned_by``, ``metrics`` how the names
    of its metrics begin."""

    name: str
    owner: str
    metrics: tuple[str, ...]
    show_cached_tokens: str
    show_metrics: str
    enable_caching: str


VLLM = ServerKind(
    name="vLLM",
    owner="vllm",
    metrics=("vllm:",),
    show_cached_tokens="start the server with --enable-prompt-tokens-details",
    show_metrics="leave out --disable-log-stats when starting the server, and ask the server itself, not a router",
    enable_caching="start the server without --no-enable-prefix-caching",
)
SGLANG = ServerKind(
    name="SGLang",
    owner="sglang",
    metrics=("sglang:", "sglang_"),
    show_cached_tokens="start the server with --enable-cache-report",
    show_metrics="start the server with --enable-metrics",
    enable_caching="start the server without --disable-radix-cache",
)
LLAMA_CPP = ServerKind(
    name="llama.cpp",
    owner="llamacpp",
    metrics=("llamacpp:",),
    show_cached_tokens="take a newer server: older ones tell cached tokens in `timings` alone",
    show_metrics="start the server with --metrics; it counts no cached tokens there, only in each answer",
    enable_caching='send "cache_prompt": true, and do not start the server with --no-cache-prompt',
)
ANAPHORA = ServerKind(
    name="Anaphora",
    owner="anaphora",
    metrics=("anaphora:",),
    show_cached_tokens="nothing is needed: cached tokens are always told",
    show_metrics="ask from the server's own machine, or give its admin key, or start it with --public-metrics",
    enable_caching="start the server without --no-enable-prefix-caching",
)
OTHER = ServerKind(
    name="OpenAI-compatible",
    owner="",
    metrics=(),
    show_cached_tokens="look in the server's documentation for how it reports cached tokens; some services never do",
    show_metrics="services in the cloud have none; on a server of your own, look for its metrics option and port",
    enable_caching="look in the server's documentation for prefix caching (also: prompt caching, context caching)",
)
_KINDS = (ANAPHORA, SGLANG, LLAMA_CPP, VLLM)


def kind_of(models: list[Mapping[str, object]], metric_names: set[str]) -> ServerKind:
    """From the model list's ``owned_by`` and the names of metrics; ours also has vLLM's names, so it is asked first."""
    owners = {str(row.get("owned_by", "")).lower() for row in models}
    for kind in _KINDS:
        if kind.owner in owners or any(name.startswith(kind.metrics) for name in metric_names):
            return kind
    return OTHER
