"""Replays of requests through the engine's own scheduler and cache core, without a model."""

from anaphora.kvcache.config import CacheConfig
from anaphora.sim.predict import predict

__all__ = ["CacheConfig", "predict"]
