"""Does the server publish cache counters that can be read?"""

from anaphora.lab.counters import read_counters
from anaphora.lab.dialects import OTHER
from anaphora.lab.doctor.check import Check, not_applicable, ok, warning
from anaphora.lab.doctor.visit import Visit


async def kind(visit: Visit) -> Check:
    """Which server it is, as far as it tells."""
    target = visit.target
    visit.kind = await target.identify()
    visit.metrics = await target.metrics()
    version = await target.version()
    if target.is_forced:
        return ok("kind of server", f"{visit.kind.title}, as was said with --kind")
    if visit.kind is OTHER:
        return not_applicable("kind of server", "it does not tell; the advice below is general")
    return ok("kind of server", f"{visit.kind.title}{f' {version}' if version else ''}")


async def metrics(visit: Visit) -> Check:
    """Counters of looked-up and cached tokens are there, and are this model's. They are read again: by now the doctor's
    own requests are in them."""
    found = visit.metrics = await visit.target.metrics()
    name = "metrics"
    if found is None:
        seen = f"there is no {visit.kind.metrics_path} at {visit.target.base}"
        is_known = visit.kind is not OTHER and not visit.kind.hosts
        return warning(name, seen, visit.kind.show_metrics) if is_known else not_applicable(name, seen)
    reading = read_counters(found, visit.target.model, visit.kind)
    if reading is None:
        if visit.kind.tells_in_answers or not visit.kind.families:
            return not_applicable(name, "this server counts no cached tokens in its metrics, only in each answer")
        return warning(
            name,
            f"{len(found.samples)} metrics, but no cache counters under any name that is known",
            "if this is a router's or a proxy's /metrics, ask the server itself; if the server is very old or very "
            "new, its names may differ: look for prefix_cache in its /metrics",
        )
    if found.models and visit.target.model not in found.models:
        return warning(
            name,
            f"the counters are of {', '.join(found.models)}, not of {visit.target.model!r}",
            "the server publishes another name than it serves, or a router stands before several: compare only these",
        )
    return ok(name, f"{reading.family}, in {reading.unit}: {reading.cached:g} of {reading.queried:g} cached so far")
