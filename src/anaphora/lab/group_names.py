"""What people call the group of a request."""

from typing import Protocol

_NAMED = ("scenarios", "prompts", "costs")
"""Experiments whose labels name the group; elsewhere it is a length in tokens, and labels are questions."""


class Grouped(Protocol):
    """A request, or what is said of one."""

    @property
    def experiment(self) -> str: ...

    @property
    def group(self) -> int: ...

    @property
    def label(self) -> str: ...


def group_name(one: Grouped) -> str:
    """``assistant`` of the scenarios, ``512 + 256`` of the costs, ``1500`` of the switch."""
    return one.label if one.experiment in _NAMED and one.label else str(one.group)
