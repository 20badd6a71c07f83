"""Cache counters by server and era. A ratio is made from one family only."""

from anaphora.lab.dialects.row import CounterFamily

VLLM_BY_SOURCE = CounterFamily(
    name="vllm:prompt_tokens_by_source",
    queried=("vllm:prompt_tokens_by_source",),
    cached=("vllm:prompt_tokens_by_source",),
    source_label="source",
    sources=("local_cache_hit", "external_kv_transfer"),
)
"""Preferred where present: it grows by finished prefills only, so that a retry of the scheduler counts once."""
VLLM_TOKENS = CounterFamily(
    name="vllm:prefix_cache",
    queried=("vllm:prefix_cache_queries",),
    cached=("vllm:prefix_cache_hits", "vllm:external_prefix_cache_hits"),
)
"""A connector's hits come on top: it is asked only for what the local cache did not have."""
VLLM_GPU = CounterFamily(
    name="vllm:gpu_prefix_cache",
    queried=("vllm:gpu_prefix_cache_queries",),
    cached=("vllm:gpu_prefix_cache_hits",),
    unit="help",
)
"""Counted in blocks at first, in tokens later, under one name: only the help text tells."""
VLLM = (VLLM_BY_SOURCE, VLLM_TOKENS, VLLM_GPU)

SGLANG = tuple(
    CounterFamily(
        name="sglang",
        queried=(f"sglang{mark}prompt_tokens",),
        cached=(f"sglang{mark}cached_tokens",),
        source_label="cache_source",
    )
    for mark in (":", "_")
)

TENSORRT_LLM = tuple(
    family
    for mark in ("_", ":")
    for family in (
        CounterFamily(
            name="trtllm_prompt_cached_tokens",
            queried=(f"trtllm{mark}prompt_tokens",),
            cached=(f"trtllm{mark}prompt_cached_tokens",),
        ),
        CounterFamily(
            name="trtllm_kv_cache_blocks",
            queried=(f"trtllm{mark}kv_cache_reused_blocks", f"trtllm{mark}kv_cache_missed_blocks"),
            cached=(f"trtllm{mark}kv_cache_reused_blocks",),
            unit="blocks",
        ),
    )
)

LLAMA_CPP = (
    CounterFamily(
        name="llamacpp:prompt_tokens_cached",
        queried=("llamacpp:prompt_tokens", "llamacpp:prompt_tokens_cached"),
        cached=("llamacpp:prompt_tokens_cached",),
    ),
)
"""Its ``prompt_tokens`` are those that were computed. Older servers have no more than these, and no cache counter."""

LMCACHE = (
    CounterFamily(
        name="lmcache_mp_lookup",
        queried=("lmcache_mp_lookup_prompt_tokens",),
        cached=("lmcache_mp_lookup_hit_l1_tokens", "lmcache_mp_lookup_hit_l2_tokens"),
    ),
    CounterFamily(
        name="lmcache:num_lookup", queried=("lmcache:num_lookup_tokens",), cached=("lmcache:num_lookup_hits",)
    ),
)
"""What the store itself was asked: used only where vLLM's own counters are not in the same text."""
