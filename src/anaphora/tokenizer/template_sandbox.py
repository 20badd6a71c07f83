"""The sandbox that chat templates run in: Jinja's immutable one, with limits on time and output.

A template comes with a checkpoint, from whoever made it, and runs on the server's request path. Jinja's sandbox keeps
it from reaching into Python; it does not keep it from looping for hours or filling the memory. A worker process with a
deadline would, but costs a round trip between processes per request, and rendering is on the way to every first token.
So the limits are inside: loops, calls and filters spend from a budget, and each operation that can make much out of
little (``"x" * n``, ``~`` in a loop, a format's width, JSON of lists that hold each other) is priced before it is done.
The compiler is told to do so by rewriting the parsed template. What remains between two checks is bounded by the
template's own length, which is limited, too.
"""

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2 import nodes
from jinja2.ext import Extension, LoopControlExtension
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from anaphora.errors import ChatTemplateError
from anaphora.tokenizer.template_budget import RenderBudget
from anaphora.tokenizer.template_filters import install_filters
from anaphora.tokenizer.template_guards import FORBIDDEN_METHODS, guard_call, guard_formatting, guard_operator
from anaphora.tokenizer.template_rewriter import Compiler, rewritten

MAX_TEMPLATE_CHARACTERS = 1 << 18
_MAX_MESSAGE_CHARACTERS = 500

Render = Callable[[dict[str, Any], int], str]
"""``render(variables, input_size)``: the text. ``input_size``: characters in the variables."""


def compile_template(source: str) -> Render:
    """Compile a template once, to be rendered many times and from any thread.

    Raises:
        ChatTemplateError: the template is not valid, too long, or broke a limit; rendering raises the same.
    """
    if len(source) > MAX_TEMPLATE_CHARACTERS:
        raise ChatTemplateError(f"the chat template is longer than {MAX_TEMPLATE_CHARACTERS} characters")
    sandbox = _Sandbox()
    with _Spending(sandbox, RenderBudget()):
        template = sandbox.from_string(rewritten(sandbox.parse(source)))

    def render(variables: dict[str, Any], input_size: int) -> str:
        with _Spending(sandbox, RenderBudget(input_size)):
            return template.render(variables)

    return render


class _Spending:
    """While this is entered, the thread's renderings spend from ``budget``, and every error is a ChatTemplateError."""

    def __init__(self, sandbox: "_Sandbox", budget: RenderBudget) -> None:
        self._sandbox = sandbox
        self._budget = budget

    def __enter__(self) -> None:
        self._sandbox.local.budget = self._budget

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        del self._sandbox.local.budget
        if isinstance(error, Exception) and not isinstance(error, ChatTemplateError):
            message = " ".join(str(error)[:_MAX_MESSAGE_CHARACTERS].split()) or type(error).__name__
            raise ChatTemplateError(f"the chat template failed: {message}", param="messages") from error


class _GenerationTag(Extension):
    """``{% generation %}`` marks what a model is trained on; for a prompt it is just its body."""

    tags = {"generation"}  # noqa: RUF012 (declared so by Jinja)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class _PlainNamespace(Namespace):
    """Jinja's ``namespace()``, whose text is not that of all it holds."""

    def __repr__(self) -> str:
        return "<Namespace>"


class _Counted:
    """What a loop runs over, a step of the budget per round."""

    def __init__(self, items: Iterable[Any], budget: RenderBudget) -> None:
        self._items = items
        self._budget = budget

    def __iter__(self) -> Iterator[Any]:
        step = self._budget.step
        for item in self._items:
            step()
            yield item

    def __len__(self) -> int:  # for loop.length; a TypeError tells Jinja to find out by itself
        return len(self._items)  # type: ignore[arg-type]


class _Sandbox(ImmutableSandboxedEnvironment):
    code_generator_class = Compiler
    intercepted_binops = frozenset({"+", "*", "%", "**"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[LoopControlExtension, _GenerationTag])
        self.local = threading.local()
        self.finalize = self._finalized
        self.globals |= {"raise_exception": _raise, "strftime_now": _strftime_now, "namespace": _PlainNamespace}
        del self.globals["lipsum"]
        install_filters(self.filters, self.tests, self._budget)

    def counted(self, items: Any) -> Any:
        return _Counted(items, self._budget())

    def concatenated(self, *values: Any) -> str:
        for value in values:
            self._budget().charge_text(value)
        return "".join(map(str, values))

    def sliced(self, sequence: Any, start: Any, stop: Any, step: Any) -> Any:
        part = sequence[start:stop:step]
        self._budget().charge_value(part)
        return part

    def measured(self, value: Any) -> Any:
        self._budget().measure(value)
        return value

    def concat(self, pieces: Iterable[str]) -> str:
        """Joins the output of a template, a macro or a block."""
        charge, parts = self._budget().charge, []
        for piece in pieces:
            charge(len(piece))
            parts.append(piece)
        return "".join(parts)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        guard_operator(self._budget(), operator, left, right)
        return self.binop_table[operator](left, right)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        budget = self._budget()
        budget.step()
        result = super().call(context, function, *guard_call(budget, function, args), **kwargs)
        budget.charge_value(result)
        return result

    def getitem(self, obj: Any, argument: Any) -> Any:
        if isinstance(argument, tuple):
            self._budget().measure(argument)
        return super().getitem(obj, argument)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        if isinstance(obj, int | float | bytes) or (isinstance(obj, str) and attr in FORBIDDEN_METHODS):
            return False
        return super().is_safe_attribute(obj, attr, value)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        formatted = super().wrap_str_format(value)
        if formatted is None:
            return None

        def guarded(*args: Any, **kwargs: Any) -> str:
            guard_formatting(self._budget(), value.__self__, args, kwargs)
            return formatted(*args, **kwargs)

        return guarded

    def _budget(self) -> RenderBudget:
        budget: RenderBudget = self.local.budget
        return budget

    def _finalized(self, value: Any) -> Any:
        if type(value) is not str:  # a string is counted when it is joined
            self._budget().charge_text(value)
        return value


def _raise(message: object) -> NoReturn:
    raise jinja2.TemplateError(message if isinstance(message, str) else "it raised an exception")


def _strftime_now(format: str) -> str:
    return datetime.now().strftime(format)
