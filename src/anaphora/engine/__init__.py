"""The inference engine: schedule, run the model, take the results in. Token ids in, token ids and text out."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from anaphora.engine.onednn import keep_few_products
from anaphora.engine.openmp import spin_briefly

if TYPE_CHECKING:
    from anaphora.engine.async_engine import AsyncEngine as AsyncEngine
    from anaphora.engine.cache_operations import CacheOperations as CacheOperations
    from anaphora.engine.config import EngineConfig as EngineConfig
    from anaphora.engine.core_port import EngineDescription as EngineDescription
    from anaphora.engine.core_questions import PinnedPrefixes as PinnedPrefixes
    from anaphora.engine.engine_client import EngineClient as EngineClient
    from anaphora.engine.engine_host import EngineHost as EngineHost
    from anaphora.engine.llm import LLM as LLM
    from anaphora.engine.llm import GenerationResult as GenerationResult
    from anaphora.engine.outputs import EngineUsage as EngineUsage
    from anaphora.engine.outputs import FinishReason as FinishReason
    from anaphora.engine.outputs import PositionLogprobs as PositionLogprobs
    from anaphora.engine.outputs import RequestOutput as RequestOutput
    from anaphora.engine.outputs import RequestTimes as RequestTimes
    from anaphora.engine.outputs import TokenLogprob as TokenLogprob
    from anaphora.engine.plan import KVCapacity as KVCapacity
    from anaphora.engine.remote.remote_caller import RemoteCaller as RemoteCaller
    from anaphora.engine.remote.remote_port import RemotePort as RemotePort
    from anaphora.engine.request import GenerationRequest as GenerationRequest
    from anaphora.engine.sampling_params import MAX_LOGPROBS as MAX_LOGPROBS
    from anaphora.engine.sampling_params import SamplingParams as SamplingParams
    from anaphora.engine.stats import EngineStats as EngineStats
    from anaphora.kvcache.ledger import Divergence as Divergence
    from anaphora.kvcache.ledger import Ledger as Ledger
    from anaphora.kvcache.ledger import Reason as Reason
    from anaphora.kvcache.pins import Pin as Pin
    from anaphora.kvcache.tree_dump import TreeNode as TreeNode

spin_briefly()
keep_few_products()  # before any module of this room imports torch

_HOMES = {
    "async_engine": ("AsyncEngine",),
    "cache_operations": ("CacheOperations",),
    "config": ("EngineConfig",),
    "plan": ("KVCapacity",),
    "core_port": ("EngineDescription",),
    "core_questions": ("PinnedPrefixes",),
    "engine_client": ("EngineClient",),
    "engine_host": ("EngineHost",),
    "llm": ("LLM", "GenerationResult"),
    "outputs": ("EngineUsage", "FinishReason", "PositionLogprobs", "RequestOutput", "RequestTimes", "TokenLogprob"),
    "remote.remote_caller": ("RemoteCaller",),
    "remote.remote_port": ("RemotePort",),
    "request": ("GenerationRequest",),
    "sampling_params": ("MAX_LOGPROBS", "SamplingParams"),
    "stats": ("EngineStats",),
}
_MODULES = {name: f"anaphora.engine.{home}" for home, names in _HOMES.items() for name in names}
_MODULES |= dict.fromkeys(("Divergence", "Ledger", "Reason"), "anaphora.kvcache.ledger")
_MODULES |= {"Pin": "anaphora.kvcache.pins", "TreeNode": "anaphora.kvcache.tree_dump"}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    """Load a public name when it is asked for: settings and outputs need no torch, and the base install has none."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
