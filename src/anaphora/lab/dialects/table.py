"""The dialect table. A new kind of server is a row here, and nothing elsewhere."""

from anaphora.lab.dialects import families
from anaphora.lab.dialects.row import Dialect, Evidence, Reset, Tokenizing

_GENERAL_USAGE = "look in the server's documentation for how it reports cached tokens; some services never do"
_NO_METRICS = "a service in the cloud has none: hits are told in each answer alone"
_AUTOMATIC = "the service caches by itself, from some length on: make the shared beginning longer"

OURS = Dialect(
    name="anaphora",
    title="Anaphora",
    evidence=Evidence.TESTED,
    owners=("anaphora",),
    metrics=("anaphora:",),
    families=(families.VLLM_TOKENS,),
    reset=Reset(path="/reset_prefix_cache", needs="a request from the server's own machine, or its admin key"),
    takes_salt=True,
    show_cached_tokens="nothing is needed: cached tokens are always told",
    show_metrics="ask from the server's own machine, or give its admin key, or start it with --public-metrics",
    enable_caching="start the server without --no-enable-prefix-caching",
    notes="A reset that cannot be done answers 409 and does nothing.",
)
_SGLANG = Dialect(
    name="sglang",
    title="SGLang",
    evidence=Evidence.RECORDED,
    owners=("sglang",),
    metrics=("sglang:", "sglang_"),
    families=families.SGLANG,
    reset=Reset(path="/flush_cache", needs="nothing; it is refused while requests run"),
    takes_salt=True,
    show_cached_tokens="start the server with --enable-cache-report",
    show_metrics="start the server with --enable-metrics",
    enable_caching="start the server without --disable-radix-cache",
    notes="The hit-rate gauge is the last batch's and is not read. No cached-token series exists before the first hit.",
)
_LLAMA_CPP = Dialect(
    name="llama.cpp",
    title="llama.cpp",
    evidence=Evidence.RUN,
    owners=("llamacpp",),
    metrics=("llamacpp:",),
    families=families.LLAMA_CPP,
    tells_in_answers=True,
    tokenizing=Tokenizing(text="content", special="add_special", template_path="/apply-template"),
    slots_path="/props",
    takes_salt=False,
    request_fields=(("cache_prompt", True),),
    show_cached_tokens="take a newer server: older ones tell cached tokens in `timings` alone",
    show_metrics="start the server with --metrics; older ones count no cached tokens there, only in each answer",
    enable_caching='send "cache_prompt": true, and do not start the server with --no-cache-prompt',
    notes="Each answer's `timings` tell cached and computed tokens; they stand in where `usage` does not.",
)
_LMCACHE = Dialect(
    name="lmcache",
    title="LMCache beside vLLM",
    evidence=Evidence.RECORDED,
    metrics=("lmcache:", "lmcache_mp_"),
    families=(*families.VLLM, *families.LMCACHE),
    reset=Reset(path="/reset_prefix_cache?reset_external=true", needs="VLLM_SERVER_DEV_MODE=1 in its environment"),
    takes_salt=True,
    show_cached_tokens="start vLLM with --enable-prompt-tokens-details",
    show_metrics="leave out --disable-log-stats when starting vLLM, and ask vLLM itself, not a router",
    enable_caching="start vLLM without --no-enable-prefix-caching and with LMCache's connector",
    notes="A reset without `reset_external` leaves what the store holds.",
)
_VLLM = Dialect(
    name="vllm",
    title="vLLM",
    evidence=Evidence.RUN,
    owners=("vllm",),
    metrics=("vllm:",),
    families=families.VLLM,
    reset=Reset(path="/reset_prefix_cache?reset_external=true", needs="VLLM_SERVER_DEV_MODE=1 in its environment"),
    takes_salt=True,
    show_cached_tokens="start the server with --enable-prompt-tokens-details",
    show_metrics="leave out --disable-log-stats when starting the server, and ask the server itself, not a router",
    enable_caching="start the server without --no-enable-prefix-caching",
    notes="A refused reset answers 200 with `success: false` (before 0.26: with nothing), so the body is read and the "
    "reset proved. With --enable-per-request-metrics each answer has the server's own times.",
)
_TENSORRT_LLM = Dialect(
    name="tensorrt-llm",
    title="TensorRT-LLM",
    evidence=Evidence.RECORDED,
    owners=("tensorrt_llm",),
    metrics=("trtllm_", "trtllm:"),
    families=families.TENSORRT_LLM,
    metrics_path="/prometheus/metrics",
    show_cached_tokens="take a newer server: cached tokens are in usage where it tells them at all",
    show_metrics="set return_perf_metrics in its configuration; its plain /metrics is JSON and not read",
    enable_caching="leave kv_cache_config.enable_block_reuse at true",
    notes="Block counters are in blocks.",
)
_OPENAI = Dialect(
    name="openai",
    title="OpenAI",
    evidence=Evidence.RECORDED,
    hosts=("api.openai.com",),
    takes_salt=False,
    show_cached_tokens="nothing is needed: cached tokens are always told",
    show_metrics=_NO_METRICS,
    enable_caching="the service caches prompts of 1024 tokens and more by itself",
)
_ANTHROPIC = Dialect(
    name="anthropic",
    title="Anthropic-shaped",
    evidence=Evidence.RECORDED,
    hosts=("api.anthropic.com",),
    takes_salt=False,
    show_cached_tokens=_GENERAL_USAGE,
    show_metrics=_NO_METRICS,
    enable_caching="mark the shared beginning with cache_control, and make it longer than the model's least length",
    notes="`input_tokens` leaves cached and written tokens out; the lab adds them.",
)
_DEEPSEEK = Dialect(
    name="deepseek",
    title="DeepSeek",
    evidence=Evidence.RECORDED,
    hosts=("api.deepseek.com",),
    takes_salt=False,
    show_cached_tokens="nothing is needed: hits and misses are always told",
    show_metrics=_NO_METRICS,
    enable_caching=_AUTOMATIC,
    notes="A prefix unit matches whole or not at all, so a shared beginning may hit from the third request on only.",
)
_GEMINI = Dialect(
    name="gemini",
    title="Gemini-compatible",
    evidence=Evidence.RECORDED,
    hosts=("generativelanguage.googleapis.com",),
    takes_salt=False,
    show_cached_tokens=_GENERAL_USAGE,
    show_metrics=_NO_METRICS,
    enable_caching=_AUTOMATIC,
    notes="Cached tokens are left out of the answer when there are none: that is read as unknown, not as 0.",
)
_SPECIAL = (OURS, _SGLANG, _LLAMA_CPP, _LMCACHE, _VLLM, _TENSORRT_LLM, _OPENAI, _ANTHROPIC, _DEEPSEEK, _GEMINI)
"""In the order in which they are looked for: ours has vLLM's metric names too, and so has LMCache's neighbour."""

OTHER = Dialect(
    name="generic",
    title="OpenAI-compatible",
    evidence=Evidence.TESTED,
    families=(
        *families.VLLM,
        *families.SGLANG,
        *families.LLAMA_CPP,
        *families.TENSORRT_LLM,
        *families.LMCACHE,
    ),
    show_cached_tokens=_GENERAL_USAGE,
    show_metrics="services in the cloud have none; on a server of your own, look for its metrics option and port",
    enable_caching="look in the server's documentation for prefix caching (also: prompt caching, context caching)",
)
DIALECTS = (*_SPECIAL, OTHER)
