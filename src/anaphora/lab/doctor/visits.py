"""One visit from the outside: reach the server, examine it, leave."""

import os
import time
from collections.abc import Callable

from anaphora.errors import ConfigError
from anaphora.lab.address import BaseUrl
from anaphora.lab.dialects import dialect_named
from anaphora.lab.doctor.check import Check
from anaphora.lab.doctor.examine import examine
from anaphora.lab.doctor.visit import Visit
from anaphora.lab.targets.openai import OpenAITarget

_REQUEST_TIMEOUT_S = 120.0


async def visit_server(
    url: str,
    *,
    model: str | None = None,
    api_key_env: str | None = None,
    kind: str | None = None,
    wait_s: float = 10.0,
    on_check: Callable[[Check], None] = lambda _: None,
) -> list[Check]:
    """Examine the server at ``url``; every check is told to ``on_check`` as it is done.

    Raises:
        ConfigError: ``url`` is no base URL, ``kind`` no kind of server, or the variable that should hold the key is not
            set.
    """
    key = None
    if api_key_env is not None and not (key := os.environ.get(api_key_env)):
        raise ConfigError(f"the environment variable {api_key_env} is not set: it should hold the key")
    target = OpenAITarget(
        BaseUrl.parse(url),
        clock=time.monotonic_ns,
        api_key=key,
        api_key_env=api_key_env,
        dialect=None if kind is None else dialect_named(kind),
        request_timeout_s=_REQUEST_TIMEOUT_S,
    )
    try:
        return await examine(Visit(target, model, wait_s), on_check)
    finally:
        await target.close()
