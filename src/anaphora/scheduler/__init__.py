"""Continuous batching over the cache core: which tokens of which requests the next step computes."""
