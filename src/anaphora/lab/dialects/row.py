"""What a row of the dialect table says."""

from dataclasses import dataclass
from enum import StrEnum


class Evidence(StrEnum):
    """How much is behind a row."""

    TESTED = "tested in CI"
    RUN = "run against the real server"
    RECORDED = "recorded only"
    """From documentation, source text and recorded answers; nobody has run the lab against such a server yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterFamily:
    """How one era of a server names its pair of counters. Names are without ``_total``; ``queried`` and ``cached`` are
    each summed over their metrics, over engines and over all other labels. All of ``queried`` must be there; a
    ``cached`` that is not there is 0, since some servers begin it with the first hit.

    ``sources``: the label whose values say where a prompt token came from, and those of them that mean cached; empty:
    every value does. ``unit``: ``tokens``, ``blocks``, or ``help`` where the metric's help text has to say.
    """

    name: str
    queried: tuple[str, ...]
    cached: tuple[str, ...]
    unit: str = "tokens"
    source_label: str = ""
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """How all cached prefixes are forgotten. Only ``path`` below the server's root; the verb is POST.

    Status 200 is not enough: a body with ``success`` in it decides, and a repeated prompt that misses proves it.
    """

    path: str
    needs: str
    """What the server must have been told so that the path is there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokenizing:
    """How a server is asked for token ids at ``/tokenize`` below its root. ``text``: the field of a text; ``special``:
    whether tokens that begin a text are added. ``template_path``: where a chat is rendered first, on a server that
    tokenises texts alone; ``None``: chats are taken there as well."""

    text: str = "prompt"
    special: str = "add_special_tokens"
    template_path: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One kind of server. ``owners``: what its model list gives as ``owned_by``; ``metrics``: how the names of its
    metrics begin; ``hosts``: where the service itself is. An empty ``families`` means that it counts no cached tokens.
    """

    name: str
    """As ``--kind`` takes it."""
    title: str
    evidence: Evidence
    owners: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    families: tuple[CounterFamily, ...] = ()
    """Newest names first: the first that a metrics text has is read, and no other."""
    tells_in_answers: bool = False
    """Every answer tells its cached tokens, so that counters may lack without harm."""
    metrics_path: str = "/metrics"
    tokenizing: Tokenizing = Tokenizing()
    slots_path: str | None = None
    """Where a server that keeps whole prompts in slots says how many it has, as ``total_slots``."""
    reset: Reset | None = None
    takes_salt: bool | None = None
    """Whether ``cache_salt`` isolates; ``None``: not known. It is proved before it is used in any case."""
    request_fields: tuple[tuple[str, bool], ...] = ()
    """Sent with every request, so that the cache is used."""
    show_cached_tokens: str
    show_metrics: str
    enable_caching: str
    notes: str = ""
