"""The cache core: blocks, exact prefix index, eviction, and the ledger that says why a token was or was not reused."""
