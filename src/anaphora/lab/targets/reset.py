"""Whether a server that was asked to forget its cached prefixes says that it did."""

from anaphora.errors import TargetError
from anaphora.lab.answers import error_in, shorten
from anaphora.lab.dialects import Dialect
from anaphora.lab.targets.body import Body


def refusal_of(answer: Body, dialect: Dialect) -> str | None:
    """Why the reset was not done, in words; ``None`` if the server does not say that it was refused.

    Status 200 proves nothing by itself: vLLM answers with it and ``success: false`` while blocks are in use, and older
    ones with it and nothing at all.
    """
    assert dialect.reset is not None
    if answer.status == 404:
        return f"there is no {dialect.reset.path}: it needs {dialect.reset.needs}"
    try:
        value = answer.json()
    except TargetError:
        text = shorten(answer.data.decode("utf-8", "replace"))
        return None if answer.status == 200 else f"HTTP {answer.status}: {text or 'no reason given'}"
    if answer.status != 200:
        return error_in(value, answer.status)
    if isinstance(value, dict) and value.get("success") is False:
        return "the server answered success: false, as it does while blocks are in use"
    return None
