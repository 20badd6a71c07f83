"""Can the server be reached, is the address right, does it take the key, does it know the model?"""

import contextlib
import dataclasses

from anaphora.errors import TargetError
from anaphora.lab.doctor.check import Check, fault, not_applicable, ok, warning
from anaphora.lab.doctor.visit import Visit
from anaphora.lab.targets.base import KeyRefusedError


async def reachable(visit: Visit) -> Check:
    """Something answers, and it has loaded its model."""
    waited: list[str] = []
    with contextlib.suppress(KeyRefusedError):  # it answers; the key has a check of its own
        await visit.target.wait_until_ready(limit_s=visit.wait_s, on_wait=waited.append)
    return ok("reachable", f"{visit.target.base} answers{' after loading its model' if waited else ''}")


async def key(visit: Visit) -> Check:
    """The key is there, right, and asked for. Some servers list their models to everybody, so a chat is tried too."""
    target = visit.target
    try:
        rows = await target.models() or []
    except KeyRefusedError as error:
        return _refused(str(error))
    target.take_model(visit.wanted_model or (str(rows[0].get("id")) if rows else "any"), rows)
    reply = await target.chat_whole(visit.prompt("key", 8))
    if reply.answer.refused_key:
        return _refused(str(reply.answer.error))
    if target.api_key_env is None:
        return ok("key", "none was given, and none is asked for")
    return ok("key", f"the key in ${target.api_key_env} is accepted")


def _refused(words: str) -> Check:
    seen, _, fix = words.partition(": ")
    return fault("key", seen, fix)


async def address(visit: Visit) -> Check:
    """The API is where the address says, and the model list is one."""
    name, base = "address", visit.target.base
    problem: TargetError | None = None
    rows = None
    try:
        rows = await visit.target.models()
    except KeyRefusedError:
        return ok(name, f"an API that asks for a key is at {base.api}")
    except TargetError as error:
        problem = error
    if rows is None:
        seen = str(problem or f"there is no list of models at {base.api}/models")
        elsewhere = await _elsewhere(visit)
        if elsewhere is not None:
            return fault(name, seen, f"use {elsewhere} as the base URL: the API answers there")
        if problem is not None:
            raise problem
        return warning(name, seen, "nothing if chats are answered below, as with some services; else correct it")
    return ok(name, f"the API is at {base.api}; clients that want it in the base URL take {base.api_url}")


async def _elsewhere(visit: Visit) -> str | None:
    """Another address on the same host where a model list is."""
    base = visit.target.base
    for api in dict.fromkeys(("/v1", "/api/v1", "/openai/v1", base.api.replace("/v1/v1", "/v1"))):
        other = dataclasses.replace(base, api=api, root=api.removesuffix("/v1"))
        if api != base.api and await visit.target.has_api_at(other):
            return other.api_url
    return None


async def model(visit: Visit) -> Check:
    """The model's name is one that the server lists, and the one that it lists if no name was given."""
    name = "model"
    rows = await visit.target.models() or []
    listed = [str(row.get("id")) for row in rows]
    if visit.wanted_model is None and len(listed) > 1:
        visit.target.take_model(listed[0], rows)
        shown = ", ".join(listed[:8])
        return warning(name, f"{len(listed)} are listed ({shown}); {listed[0]} was examined", "choose one with --model")
    await visit.target.choose_model(visit.wanted_model)
    if not listed:
        return not_applicable(name, f"the server lists no models; {visit.target.model!r} is taken on trust")
    limit = visit.target.max_model_len
    return ok(name, f"{visit.target.model!r} is listed" + (f", context {limit} tokens" if limit else ""))
