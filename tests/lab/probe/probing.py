"""Runs a probe on a planted server."""

import asyncio
from typing import Any

from anaphora.lab.probe.finding import Finding
from anaphora.lab.probe.probe import Probe
from anaphora.lab.probe.settings import ProbeSettings
from tests.lab.probe.planted import PlantedServer, PlantedTarget


def probe_of(server: PlantedServer, *, has_other_key: bool = False, run_id: str = "run", **settings: Any) -> Probe:
    """Nothing is asked yet."""
    target = PlantedTarget(server)
    return Probe(
        target,
        target,
        ProbeSettings(**{"max_tokens": 200_000, **settings}),
        run_id,
        other=PlantedTarget(server, "second") if has_other_key else None,
        max_model_len=server.max_model_len,
        clock=server.clock,
        pause=server.pause,
    )


def found(server: PlantedServer, **options: Any) -> dict[str, Finding]:
    """The findings by name."""
    return {finding.name: finding for finding in asyncio.run(probe_of(server, **options).run())}
