"""Records out of JSON: a value of a wrong type is told where it stands, not where it is first reckoned with."""

import math
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

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
        of_item = _check_of(args[0])
        return lambda value: type(value) is tuple and all(map(of_item, value))
    if origin is Mapping:
        of_value = _check_of(args[1])
        return lambda value: type(value) is dict and all(map(of_value, value.values()))
    if hint is float:
        return lambda value: type(value) in (int, float) and math.isfinite(value)
    wanted = NoneType if hint is None else hint
    return lambda value: type(value) is wanted
