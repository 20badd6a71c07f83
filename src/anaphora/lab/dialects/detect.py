"""Which kind of server this is: by what a person says, else by what the server tells of itself."""

import difflib
from collections.abc import Collection, Mapping, Sequence

from anaphora.errors import ConfigError
from anaphora.lab.dialects.row import Dialect
from anaphora.lab.dialects.table import DIALECTS, OTHER


def kind_of(host: str, models: Sequence[Mapping[str, object]], metric_names: Collection[str]) -> Dialect:
    """From the host's name, the model list's ``owned_by`` and the names of metrics, in the table's order."""
    owners = {str(row.get("owned_by", "")).lower() for row in models}
    for row in DIALECTS:
        if (
            host in row.hosts
            or owners.intersection(row.owners)
            or (row.metrics and any(name.startswith(row.metrics) for name in metric_names))
        ):
            return row
    return OTHER


def dialect_named(name: str) -> Dialect:
    """The row of ``--kind``. Raises :class:`ConfigError` with the nearest name for what is none."""
    by_name = {row.name: row for row in DIALECTS}
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name.lower(), by_name, 1, 0.0)[0]
    raise ConfigError(f"no kind of server is called {name!r}: did you mean {near}? There are {', '.join(by_name)}")
