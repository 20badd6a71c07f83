"""One visit from the outside: reach the server, examine it, leave."""

from collections.abc import Callable
from contextlib import nullcontext

from rich.console import Console

from anaphora.lab.doctor.check import Check
from anaphora.lab.doctor.examine import examine
from anaphora.lab.doctor.visit import Visit
from anaphora.lab.doctor.waiting import Waiting
from anaphora.lab.profiles.endpoint import endpoint_of

_REQUEST_TIMEOUT_S = 120.0


async def visit_server(
    url: str,
    *,
    model: str | None = None,
    api_key_env: str | None = None,
    kind: str | None = None,
    wait_s: float = 10.0,
    on_check: Callable[[Check], None] = lambda _: None,
    waits: Console | None = None,
) -> list[Check]:
    """Examine the server at ``url``, or of a profile of that name; every check is told to ``on_check`` as it is done,
    and on ``waits`` what is waited for meanwhile.

    Raises:
        ConfigError: ``url`` is no base URL, ``kind`` no kind of server, or the variable that should hold the key is not
            set.
    """
    endpoint = endpoint_of(url, model=model, api_key_env=api_key_env, kind=kind)
    target = endpoint.target(request_timeout_s=_REQUEST_TIMEOUT_S)
    during = (lambda _: nullcontext()) if waits is None else Waiting(waits, f"an answer of {target.base}").during
    try:
        return await examine(Visit(target, endpoint.model, wait_s), on_check, during)
    finally:
        await target.close()
