"""How tests ask servers on this machine, and how long they wait for what must come."""

from typing import Any

PATIENCE_S = 180
"""Longer than any stall of a busy machine: whoever waits so long waits for nothing."""
LOCAL: dict[str, Any] = {"timeout": PATIENCE_S, "verify": False}
"""For httpx: without TLS there is nothing to verify, and reading all certificates of the world takes 30 ms a client."""
