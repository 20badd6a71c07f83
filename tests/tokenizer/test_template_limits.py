"""Templates are made by strangers: whatever they contain ends soon, small, and with an error that says so."""

import time
from typing import Any

import pytest

from anaphora.errors import ChatTemplateError
from anaphora.tokenizer import template_budget
from anaphora.tokenizer.template_sandbox import MAX_TEMPLATE_CHARACTERS, compile_template

NS = "{% set ns = namespace(x='ab', l=[1], t=(1,), d={}) %}{% set other = namespace(l=[1]) %}"
DOUBLE_LISTS = (
    NS + "{% for i in range(60) %}{% set ns.l = [ns.l, ns.l] %}{% set other.l = [other.l, other.l] %}{% endfor %}"
)
DOUBLE_TUPLES = NS + "{% for i in range(60) %}{% set ns.t = (ns.t, ns.t) %}{% endfor %}"

TOO_LONG = {
    "loops in loops": "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "macros that call each other": (
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}"
    ),
    "filters over lists": "{{ range(99999) | map('string') " + "| map('upper') " * 20 + "| list | length }}",
    "comparing again and again": (
        "{% set l = range(99999) | map('list') %}{% set l = [[1]] * 9999 %}"
        "{% for i in range(9999) %}{% if l == messages %}{% endif %}{% endfor %}"
    ),
}
TOO_LARGE = {
    "a repeated text": "{{ 'x' * 10**9 }}",
    "a repeated list": "{{ ([1] * 10**9) | length }}",
    "a repetition from the left": "{{ 10**9 * 'x' }}",
    "a text joined to itself by ~": NS + "{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
    "a text joined to itself by +": NS + "{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
    "a list joined to itself": NS + "{% for i in range(60) %}{% set ns.l = ns.l + ns.l %}{% endfor %}",
    "a block that holds itself": (
        NS + "{% for i in range(60) %}{% set y %}{{ ns.x }}{{ ns.x }}{% endset %}{% set ns.x = y %}{% endfor %}"
    ),
    "output without end": "{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}",
    "a block without end": "{% set x %}{% for i in range(99999) %}" + "y" * 1000 + "{% endfor %}{% endset %}",
    "slices without end": (
        NS + "{% set b = 'x' * 99999 %}{% for i in range(99999) %}{% set ns.l = ns.l + [b[1:]] %}{% endfor %}"
    ),
    "splitting without end": "{% set b = 'x,' * 9999 %}{% for i in range(9999) %}{% set y = b.split() %}{% endfor %}",
    "a filter's join": "{{ (['x' * 100000] * 10000) | join }}",
    "a join by attribute": "{{ ([{'a': 'x' * 100000}] * 10000) | join('', attribute='a') }}",
    "a method's join": "{{ ''.join(['x' * 100000] * 10000) }}",
    "a join by a long text": "{{ ('x' * 100000).join('a' * 100000) }}",
    "a filter's replace": "{{ ('x' * 10000) | replace('x', 'y' * 10000) }}",
    "a method's replace": "{{ ('x' * 10000).replace('x', 'y' * 10000) }}",
    "replacing nothing": "{{ ('x' * 10000).replace('', 'y' * 10000) }}",
    "a format with long arguments": "{{ ('%s' * 10000) % (('x' * 10000,) * 10000) }}",
    "an indented text": "{{ ('\n' * 99999) | indent(900, blank=true) }}",
    "lists in lists, printed": DOUBLE_LISTS + "{{ ns.l }}",
    "lists in lists, as text": DOUBLE_LISTS + "{{ ns.l | string }}",
    "lists in lists, joined": DOUBLE_LISTS + "{{ ns.l ~ 'x' }}",
    "lists in lists, formatted": DOUBLE_LISTS + "{{ '%s' % (ns.l,) }}{{ '{}'.format(ns.l) }}",
    "lists in lists, as JSON": DOUBLE_LISTS + "{{ ns.l | tojson }}",
    "lists in lists, compared": DOUBLE_LISTS + "{{ ns.l == other.l }}",
    "lists in lists, tested": DOUBLE_LISTS + "{{ [ns.l] | select('eq', other.l) | list }}",
    "lists in lists, sorted": DOUBLE_LISTS + "{{ [ns.l, other.l] | sort }}",
    "lists in lists, looked for": DOUBLE_LISTS + "{{ [ns.l].index(other.l) }}",
    "views of dicts": DOUBLE_LISTS + "{{ {'a': ns.l}.values() }}",
    "tuples in tuples, as a key": DOUBLE_TUPLES + "{{ {ns.t: 1} }}",
    "tuples in tuples, as an index": DOUBLE_TUPLES + "{{ ns.d[ns.t] }}",
    "tuples in tuples, got": DOUBLE_TUPLES + "{{ ns.d.get(ns.t) }}",
    "tuples in tuples, looked for": DOUBLE_TUPLES + "{{ ns.t in ns.d }}",
    "tuples in tuples, made a dict": DOUBLE_TUPLES + "{{ dict([(ns.t, 1)]) }}",
    "tuples in tuples, made unique": DOUBLE_TUPLES + "{{ [ns.t] | unique | list }}",
}
NOT_ALLOWED = {
    "a huge power": "{{ 2 ** (2 ** 30) }}",
    "a huge product": "{% set n = namespace(x=3) %}{% for i in range(60) %}{% set n.x = n.x * n.x %}{% endfor %}",
    "a width in a format": "{{ '%1000000000d' % 1 }}",
    "a width in str.format": "{{ '{:1000000000d}'.format(1) }}",
    "a computed width": "{{ '{:{}}'.format(1, 10**9) }}",
    "a starred width": "{{ '%*d' % (10**9, 1) }}",
    "a width in format_map": "{{ '{a:1000000000d}'.format_map({'a': 1}) }}",
    "a width in the filter": "{{ '%1000000000d' | format(1) }}",
    "padding": "{{ 'x'.center(10**9) }}",
    "padding by zeros": "{{ 'x'.zfill(10**9) }}",
    "indenting far": "{{ 'x' | indent(10**9, true) }}",
    "indenting by a long text": "{{ 'x' | indent('y' * 9999, true) }}",
    "JSON indented far": "{{ [1] | tojson(indent=10**9) }}",
    "adding up lists": "{{ ([range(99999) | list] * 9999) | sum(start=[]) }}",
}
FAILED = {
    "a range without end": "{% for i in range(10**9) %}{% endfor %}",
    "recursion without end": "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "a recursive loop": "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
    "nesting in the source": "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}",
    "batches": "{{ [1] | batch(10**9, 0) | list }}",
    "bytes": "{{ (1).to_bytes(10**9, 'big') }}",
    "tabs": "{{ 'x'.expandtabs(10**9) }}",
    "a translation": "{{ 'x'.translate({120: 'y'}) }}",
    "another template": "{% include 'x' %}",
    "changing the chat": "{{ messages.append(1) }}",
    "reaching into Python": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "filling text": "{{ lipsum(10**6) }}",
    "an unknown filter": "{{ 'x' | nosuch }}",
    "long JSON nests": NS + "{% for i in range(9999) %}{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l | tojson }}",
}


def run(source: str, variables: dict[str, Any] | None = None, input_size: int = 0) -> str:
    return compile_template(source)({"messages": [{"role": "user"}] * 50} | (variables or {}), input_size)


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_runs_too_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_budget, "MAX_CPU_S", 0.2)
    with pytest.raises(ChatTemplateError, match=r"^the chat template runs too long$"):
        run(TOO_LONG[name])


@pytest.fixture
def no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting alone decides, however slow the machine is."""
    monkeypatch.setattr(template_budget, "MAX_CPU_S", float("inf"))


@pytest.mark.usefixtures("no_clock")
@pytest.mark.parametrize("name", TOO_LARGE)
def test_what_makes_too_much(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(template_budget, "BASE_SIZE", 400_000)  # the same, sooner
    with pytest.raises(ChatTemplateError, match=r"^the chat template makes too much text$"):
        run(TOO_LARGE[name])


@pytest.mark.parametrize("name", NOT_ALLOWED)
def test_what_no_template_needs(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"^the chat template uses .*, which is not allowed$"):
        run(NOT_ALLOWED[name])


@pytest.mark.parametrize("name", FAILED)
def test_what_fails(name: str) -> None:
    with pytest.raises(ChatTemplateError, match=r"^the chat template failed: .*$") as caught:
        run(FAILED[name])
    assert len(str(caught.value)) < 600


def test_the_clock_stops_what_counting_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of this loop is some hundred thousand comparisons of characters, and counts as one step."""
    source = "{% set b = 'x' * 100000 %}{% for i in range(99999) %}{% if 'xy' in b %}{% endif %}{% endfor %}"
    template = compile_template(source)
    clock = iter(range(1000))
    monkeypatch.setattr(template_budget, "MAX_CPU_S", 9.5)
    monkeypatch.setattr(time, "thread_time", lambda: float(next(clock)))
    with pytest.raises(ChatTemplateError, match="runs too long"):
        template({}, 0)
    assert next(clock) == 11  # looked at once at the start, and then every so many rounds until it was over


def test_a_namespace_has_a_short_text() -> None:
    assert run(DOUBLE_LISTS + "{{ ns }}") == "<Namespace>"


def test_a_template_may_not_be_longer_than_any_real_one() -> None:
    compile_template("x" * MAX_TEMPLATE_CHARACTERS)
    with pytest.raises(ChatTemplateError, match="longer than 262144 characters"):
        compile_template("x" * (MAX_TEMPLATE_CHARACTERS + 1))


@pytest.mark.usefixtures("no_clock")
def test_long_chats_are_no_abuse() -> None:
    source = (
        "{% for m in messages %}{{ '<' + m.role + '>' + m.content + '</' + m.role + '>\n' }}"
        "{% if m.tool_calls is defined %}{{ m.tool_calls | tojson }}{% endif %}{% endfor %}"
    )
    messages = [{"role": "user", "content": "word " * 1000}] * 4000
    text = run(source, {"messages": messages}, 4000 * 5004)
    assert len(text) == 4000 * (5000 + len("<user></user>\n"))


def test_one_template_in_several_budgets() -> None:
    """A rendering that was stopped leaves nothing behind for the next one."""
    template = compile_template("{% for i in range(n) %}{{ 'x' * k }}{% endfor %}")
    with pytest.raises(ChatTemplateError):
        template({"n": 10, "k": 10**9}, 0)
    assert template({"n": 3, "k": 2}, 0) == "xxxxxx"
