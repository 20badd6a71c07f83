"""Lists of numbers on the command line."""

import typer


def parse_numbers(text: str, option: str, *, example: str) -> tuple[int, ...]:
    """``1,2,3`` as numbers; a usage error that shows ``example`` if it is no such list."""
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no list of numbers like {example}", param_hint=option) from None
