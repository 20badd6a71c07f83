"""What each operation that can make much out of little costs, found out before it is done.

A guard raises :class:`ChatTemplateError` through the budget, or refuses an operation that no chat template needs.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from anaphora.errors import ChatTemplateError
from anaphora.tokenizer.template_budget import RenderBudget

_MAX_BITS = 4096
"""Of a whole number: templates count messages, they do not do cryptography."""
_MAX_WIDTH = 1000
_LARGE_NUMBER = re.compile(r"\d{4,}")
_NESTED_FORMAT = re.compile(r":[^}]*\{")


def _refuse(what: str) -> ChatTemplateError:
    return ChatTemplateError(f"the chat template uses {what}, which is not allowed", param="messages")


def guard_operator(budget: RenderBudget, operator: str, left: Any, right: Any) -> None:
    """Before ``left operator right``; the operators are ``+ * % **``."""
    if operator == "+":
        if isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
            budget.charge(len(left) + len(right))
    elif operator == "*":
        _guard_product(budget, left, right)
    elif operator == "%":
        if isinstance(left, str):
            guard_formatting(budget, left, right)
    elif isinstance(left, int) and isinstance(right, int) and left.bit_length() * abs(right) > _MAX_BITS:
        raise _refuse("a huge number")


def _guard_product(budget: RenderBudget, left: Any, right: Any) -> None:
    for sequence, count in ((left, right), (right, left)):
        if isinstance(sequence, str | list | tuple) and isinstance(count, int):
            budget.charge(len(sequence) * max(0, count))
    if isinstance(left, int) and isinstance(right, int) and left.bit_length() + right.bit_length() > _MAX_BITS:
        raise _refuse("a huge number")


def guard_formatting(budget: RenderBudget, pattern: str, *values: Any) -> None:
    """Before values are put into a pattern, of the ``%`` sort or that of ``str.format``."""
    if _LARGE_NUMBER.search(pattern) or _NESTED_FORMAT.search(pattern) or "*" in pattern:
        raise _refuse("a format with a width that is large or computed")
    num_fields = pattern.count("%") + pattern.count("{")
    budget.charge(len(pattern) + num_fields * (_MAX_WIDTH + sum(budget.measure(value)[0] for value in values)))


def guard_join(budget: RenderBudget, separator: str, items: list[Any]) -> None:
    """Before ``separator.join`` of the items' texts."""
    budget.charge(len(separator) * len(items))
    for item in items:
        budget.charge_text(item)


def guard_replace(budget: RenderBudget, text: str, old: str, new: str) -> None:
    """Before ``text.replace(old, new)``."""
    budget.charge(len(text) + text.count(old) * len(new))


def guard_width(budget: RenderBudget, text: str, width: Any) -> None:
    """Before each line of ``text`` is padded or indented by ``width``, a number or a text."""
    size = len(width) if isinstance(width, str) else width
    if not isinstance(size, int) or size > _MAX_WIDTH:
        raise _refuse(f"a width of more than {_MAX_WIDTH}")
    budget.charge((text.count("\n") + 1) * max(0, size))


def guard_json(budget: RenderBudget, value: Any, indent: Any) -> None:
    """Before ``value`` is written as JSON, each level indented by ``indent``."""
    size, depth = budget.measure(value)
    width = len(indent) if isinstance(indent, str) else indent or 0
    if not isinstance(width, int) or width > _MAX_WIDTH:
        raise _refuse(f"a width of more than {_MAX_WIDTH}")
    budget.charge(size * (1 + depth * max(0, width)) if width else size)


def guard_call(budget: RenderBudget, function: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Before a call from the template; the arguments to call with."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, str):
        guard = _STRING_METHODS.get(name)
        return guard(budget, owner, args) if guard else args
    if function is dict or isinstance(owner, list | tuple | dict):  # these hash or compare what they are given
        for value in (owner, *args) if name in ("index", "count") else args:
            budget.measure(value)
    return args


def _join(budget: RenderBudget, separator: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    items: list[Any] = list(*args)
    guard_join(budget, separator, items)
    return (items,)


def _replace(budget: RenderBudget, text: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(args) >= 2 and isinstance(args[0], str) and isinstance(args[1], str):
        guard_replace(budget, text, args[0], args[1])
    return args


def _pad(budget: RenderBudget, text: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    guard_width(budget, text, *args[:1])
    return args


def _split(budget: RenderBudget, text: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    budget.charge(len(text))
    return args


_Guard = Callable[[RenderBudget, str, tuple[Any, ...]], tuple[Any, ...]]
_STRING_METHODS: Mapping[str, _Guard] = {
    "join": _join,
    "replace": _replace,
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _pad),
    **dict.fromkeys(("split", "rsplit", "splitlines", "partition", "rpartition"), _split),
}
FORBIDDEN_METHODS = frozenset({"encode", "translate", "maketrans", "expandtabs"})
"""Methods of strings that can make much out of little and that no template needs."""
