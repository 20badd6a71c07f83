"""The filters and tests that chat templates get: Jinja's own, less those that only a web page needs, each of them
counted, and guarded where it can make much out of little."""

import functools
import json
from collections.abc import Callable
from typing import Any

import jinja2.filters
from jinja2 import pass_environment
from markupsafe import soft_str

from anaphora.errors import ChatTemplateError
from anaphora.tokenizer.template_budget import RenderBudget
from anaphora.tokenizer.template_guards import (
    guard_formatting,
    guard_join,
    guard_json,
    guard_replace,
    guard_width,
)

Budget = Callable[[], RenderBudget]
"""The budget of the rendering that runs in this thread."""

_NOT_OFFERED = (
    *("batch", "center", "filesizeformat", "forceescape", "pprint", "random", "slice", "striptags", "truncate"),
    *("urlencode", "urlize", "wordcount", "wordwrap", "xmlattr"),
)
_WALK_OVER_VALUES = ("sort", "unique", "groupby", "min", "max", "dictsort")
_COMPARING_TESTS = (
    *("eq", "==", "equalto", "ne", "!=", "in", "lt", "<", "lessthan", "le", "<=", "gt", ">", "greaterthan", "ge", ">="),
)

Functions = dict[str, Any]


def install_filters(filters: Functions, tests: Functions, budget: Budget) -> None:
    """Replace an environment's filters and tests by counted and guarded ones."""
    for name in _NOT_OFFERED:
        del filters[name]
    filters |= _guarded_filters(budget)
    for name, function in list(filters.items()):
        filters[name] = _counted(function, budget, measured=name in _WALK_OVER_VALUES)
    for name in _COMPARING_TESTS:
        tests[name] = _counted(tests[name], budget, measured=True)


def _counted(function: Callable[..., Any], budget: Budget, *, measured: bool) -> Callable[..., Any]:
    @functools.wraps(function)  # also keeps Jinja's mark of what the first argument is
    def counted(*args: Any, **kwargs: Any) -> Any:
        current = budget()
        current.step()
        if measured:
            for value in args:
                current.measure(value)
        result = function(*args, **kwargs)
        current.charge_value(result)
        return result

    return counted


def _guarded_filters(budget: Budget) -> Functions:
    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        guard_json(budget(), value, indent)
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def string(value: Any) -> str:
        budget().charge_text(value)
        return soft_str(value)

    @pass_environment
    def join(environment: jinja2.Environment, value: Any, separator: Any = "", attribute: Any = None) -> str:
        get = jinja2.filters.make_attrgetter(environment, attribute) if attribute is not None else lambda item: item
        items = [get(item) for item in value]
        guard_join(budget(), string(separator), items)
        return str(separator).join([str(item) for item in items])

    def replace(text: Any, old: Any, new: Any, count: int = -1) -> str:
        text, old, new = string(text), string(old), string(new)
        guard_replace(budget(), text, old, new)
        return str.replace(text, old, new, count)

    def indent(text: Any, width: Any = 4, first: bool = False, blank: bool = False) -> str:
        guard_width(budget(), string(text), width)
        return jinja2.filters.do_indent(string(text), width, first, blank)

    def format(pattern: Any, *args: Any, **kwargs: Any) -> str:
        guard_formatting(budget(), string(pattern), args, kwargs)
        return jinja2.filters.do_format(string(pattern), *args, **kwargs)

    @pass_environment
    def sum(environment: jinja2.Environment, value: Any, attribute: Any = None, start: Any = 0) -> Any:
        if not isinstance(start, int | float):  # adding up lists makes long ones of few
            raise ChatTemplateError("the chat template uses sum of other than numbers, which is not allowed")
        return jinja2.filters.sync_do_sum(environment, value, attribute, start)

    guarded = (tojson, string, join, replace, indent, format, sum)
    return {function.__name__: function for function in guarded}
