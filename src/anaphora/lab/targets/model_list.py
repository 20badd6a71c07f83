"""What a server lists as its models, and which of them is meant."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from anaphora.errors import TargetError
from anaphora.lab.address import BaseUrl
from anaphora.lab.answers import error_in
from anaphora.lab.targets.body import Body

Rows = Sequence[Mapping[str, Any]]

_NOT_FOUND = 404


def listed_models(base: BaseUrl, answer: Body) -> list[Mapping[str, Any]] | None:
    """The rows of a list of models; ``None`` if the server has no such list, as some APIs have not.

    Raises:
        TargetError: the answer is neither.
    """
    if answer.status == _NOT_FOUND and "json" in answer.headers.get("content-type", ""):
        return None
    try:
        value = answer.json()
    except TargetError as error:
        raise TargetError(f"{base}: {error}") from error
    problem = error_in(value, answer.status)
    rows = value.get("data") if problem is None else None
    if not isinstance(rows, list):
        raise TargetError(f"{base} gives no list of models: {problem or 'the answer has no data'}")
    return [row for row in rows if isinstance(row, Mapping)]


def chosen_model(base: BaseUrl, rows: Rows | None, wanted: str | None) -> str:
    """``wanted`` or, without a wish, the only model that is listed.

    Raises:
        TargetError: it is not listed; or there is no wish, and not one model but none or several.
    """
    names = [str(row.get("id")) for row in rows or ()]
    if wanted is None and len(names) != 1:
        if rows is None:
            raise TargetError(
                f"{base} has no {base.api}/models (HTTP 404): {base.other_try}; or say --model if that is right"
            )
        listed = ", ".join(names[:8]) or "none"
        raise TargetError(f"{base} lists {len(names)} models ({listed}): choose one with --model")
    if wanted is not None and names and wanted not in names:
        near = difflib.get_close_matches(wanted, names, 1, 0.0)[0]
        raise TargetError(f"{base} has no model {wanted!r}; the nearest that it lists is {near!r}")
    return wanted or names[0]


def context_length(row: Mapping[str, Any]) -> int | None:
    """The model's longest context in tokens; ``None`` if its row does not tell. llama.cpp tells that of one slot."""
    meta = row.get("meta")
    limit = row.get("max_model_len") or row.get("context_length")
    if limit is None and isinstance(meta, Mapping):
        limit = meta.get("n_ctx")
    return limit if isinstance(limit, int) else None
