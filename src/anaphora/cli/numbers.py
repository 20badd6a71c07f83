"""Lists of numbers on the command line."""

import math

import typer


def parse_numbers(text: str, option: str, *, example: str) -> tuple[int, ...]:
    """``1,2,3`` as numbers; a usage error that shows ``example`` if it is no such list."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise _no_list(text, option, example) from None


def parse_decimals(text: str, option: str, *, example: str) -> tuple[float, ...]:
    """``0.5,1,2`` as numbers that may have a fraction; a usage error that shows ``example`` if it is no such list."""
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError:
        raise _no_list(text, option, example) from None
    if not all(math.isfinite(number) for number in numbers):
        raise _no_list(text, option, example)
    return numbers


def _no_list(text: str, option: str, example: str) -> typer.BadParameter:
    return typer.BadParameter(f"{text!r} is no list of numbers like {example}", param_hint=option)
