"""Records out of JSON: a value of a wrong type is told where it stands, not where it is first reckoned with."""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Value = TypeVar("Value", bound="DataclassInstance")
_Accepts = Callable[[Any], bool]
_SHOWN = 40


def of_fields(kind: type[Value], values: Mapping[str, Any]) -> Value:
    """A ``kind`` with these values.

    Raises:
        ValueError: a field is missing, unknown, or not of its type.
    """
    if not isinstance(values, Mapping):
        raise ValueError(f"a table of a {kind.__name__}'s fields is wanted, not {repr(values)[:_SHOWN]}")
    known = _fields_of(kind)
    for name, (accepts, is_needed) in known.items():
        if name not in values:
            if is_needed:
                raise ValueError(f"{name} is missing")
        elif not accepts(values[name]):
            raise ValueError(f"{name} cannot be {repr(values[name])[:_SHOWN]}")
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise ValueError(f"unknown field {unknown!r}")
    return kind(**values)


def expect_entries(kind: type, table: Any, path: str) -> None:
    """Check the entries of a table that the TypedDict ``kind`` names; others may stand beside them.

    Raises:
        ValueError: one is missing, or not of its type; it is named by its path, which begins with ``path``.
    """
    if not isinstance(table, Mapping):
        raise ValueError(f"{path} cannot be {repr(table)[:_SHOWN]}")
    needed: frozenset[str] = kind.__required_keys__  # type: ignore[attr-defined]
    for name, hint in get_type_hints(kind).items():
        if name in table:
            _expect(hint, table[name], f"{path}.{name}")
        elif name in needed:
            raise ValueError(f"{path}.{name} is missing")


def _expect(hint: Any, value: Any, path: str) -> None:
    """The value is what ``hint`` names. A ``Mapping[int, ...]`` is a table whose names are numbers."""
    choices = get_args(hint) if get_origin(hint) is UnionType else (hint,)
    if value is None and NoneType in choices:
        return
    inner = next((one for one in choices if is_typeddict(one) or is_dataclass(one) or _is_table(one)), None)
    if inner is None or (len(choices) > 1 and not isinstance(value, Mapping)):
        if not _check_of(hint)(value):
            raise ValueError(f"{path} cannot be {repr(value)[:_SHOWN]}")
    elif is_typeddict(inner):
        expect_entries(inner, value, path)
    elif isinstance(inner, type) and is_dataclass(inner):
        try:
            of_fields(inner, value)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
    else:
        _expect_table(inner, value, path)


def _is_table(hint: Any) -> bool:
    return get_origin(hint) is Mapping


def _expect_table(hint: Any, table: Any, path: str) -> None:
    of_name, of_value = get_args(hint)
    if not isinstance(table, Mapping):
        raise ValueError(f"{path} cannot be {repr(table)[:_SHOWN]}")
    for name, value in table.items():
        if not (name.isdecimal() and name.isascii() if of_name is int else _check_of(of_name)(name)):
            raise ValueError(f"{path} has no entry {name[:_SHOWN]!r}")
        _expect(of_value, value, f"{path}.{name}")


@cache
def _fields_of(kind: "type[DataclassInstance]") -> dict[str, tuple[_Accepts, bool]]:
    hints = get_type_hints(kind)
    return {
        one.name: (_check_of(hints[one.name]), one.default is MISSING and one.default_factory is MISSING)
        for one in fields(kind)
    }


def _check_of(hint: Any) -> _Accepts:
    """Whether a value is of the type that ``hint`` names. JSON knows few types, so that identity suffices."""
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return lambda _: True
    if origin is UnionType:
        choices = [_check_of(one) for one in args]
        return lambda value: any(accepts(value) for accepts in choices)
    if origin is Literal:
        return lambda value: type(value) is str and value in args
    if origin is tuple:
        of_item, num_items = _check_of(args[0]), None if args[-1] is Ellipsis else len(args)
        if num_items is not None:  # of a table, which is looked at as JSON has it
            return lambda value: type(value) is list and len(value) == num_items and all(map(of_item, value))
        return lambda value: type(value) is tuple and all(map(of_item, value))
    if origin is list:
        of_item = _check_of(args[0])
        return lambda value: type(value) is list and all(map(of_item, value))
    if is_typeddict(hint):
        return lambda _: False  # a table, which is looked into where its path is known
    if origin is Mapping:
        of_value = _check_of(args[1])
        return lambda value: type(value) is dict and all(map(of_value, value.values()))
    if hint is float:
        return lambda value: type(value) in (int, float) and math.isfinite(value)
    wanted = NoneType if hint is None else hint
    return lambda value: type(value) is wanted
