"""The clock of all measurements."""

from collections.abc import Callable

Clock = Callable[[], int]
"""Monotonic nanoseconds: ``time.monotonic_ns`` outside tests."""
