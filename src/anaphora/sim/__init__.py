"""Replays of requests through the engine's own scheduler and cache core, without a model."""
