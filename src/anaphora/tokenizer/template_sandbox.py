"""The sandbox that chat templates run in."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.ext
import jinja2.sandbox

from anaphora.errors import ChatTemplateError

Render = Callable[[dict[str, Any]], str]


def compile_template(source: str) -> Render:
    """Compile a template once; the result renders it with the given variables."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = _tojson
    environment.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now}
    template = environment.from_string(source)

    def render(variables: dict[str, Any]) -> str:
        try:
            return template.render(variables)
        except Exception as error:
            raise ChatTemplateError(f"the chat template failed: {error}", param="messages") from error

    return render


def _tojson(
    value: Any, ensure_ascii: bool = False, indent: int | None = None, separators: Any = None, sort_keys: bool = False
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
