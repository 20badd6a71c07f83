"""The host's share of a hit, and how it splits: our server with an instant model, asked over HTTP.

python -m benchmarks.cpu.host_path MODEL_FOLDER

Prints one sample a line, as the comparison's ``--host-path`` wants it.
"""

import asyncio
import itertools
import json
import shlex
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict
from pathlib import Path

import aiohttp
from benchmarks.cpu.client import ChatClient, Reply
from benchmarks.cpu.phases import PROBE_WORDS
from benchmarks.cpu.prompts import QUESTIONS, PromptSizer, system_prompt
from benchmarks.cpu.sample import Sample
from benchmarks.cpu.servers import Server

LENGTH = 3072
NUM_HITS = 30
NUM_WARM_UP = 5
PAUSE_S = 0.1

STAGES = {
    "parsed": "HTTP in, reading and checking the body",
    "tokenised": "chat template and tokenising",
    "handed_over": "to the engine's thread",
    "scheduled": "prefix lookup and scheduling",
    "batched": "tensors of the batch",
    "received": "sampling, detokenising, event, HTTP out",
}
"""What lies between the stamp before and this one."""


def stage_times_ms(sent_s: float, stamps: Sequence[tuple[str, float]], received_s: float) -> dict[str, float]:
    """Milliseconds per stage of one request whose stamps came in the order of ``STAGES``.

    Raises ``ValueError`` if they did not: then more than one request, or more than one step, was stamped.
    """
    if [name for name, _ in stamps] != list(STAGES)[:-1]:
        raise ValueError(f"stamps of one request were expected, not {[name for name, _ in stamps]}")
    times_s = [sent_s, *(at_s for _, at_s in stamps), received_s]
    return {stage: 1000 * (b - a) for stage, (a, b) in zip(STAGES.values(), itertools.pairwise(times_s), strict=True)}


def hit_samples(reply: Reply, stamps: Sequence[tuple[str, float]], number: int) -> list[Sample]:
    """The whole and its stages."""
    facts = asdict(reply) | {"stamps": stamps}
    whole = Sample(
        measure="host_ttft_ms", server="ours", value=reply.ttft_ms, length=LENGTH, round=number, detail=facts
    )
    stages = stage_times_ms(reply.sent_s, stamps, reply.first_token_s)
    return [whole] + [
        Sample(measure="host_stage_ms", server="ours", value=ms, length=LENGTH, round=number, detail={"stage": stage})
        for stage, ms in stages.items()
    ]


async def measure(base_url: str, model: str) -> AsyncIterator[Sample]:
    """Hits on a prefix of ``LENGTH`` tokens, each with a pause before it and a question that no other has."""
    seed = uuid.uuid4().hex
    async with aiohttp.ClientSession() as session:
        client = ChatClient(session, base_url, model)
        counts = [
            (n, (await client.ask(system_prompt(seed, n), QUESTIONS[0], max_tokens=1)).num_prompt_tokens)
            for n in PROBE_WORDS
        ]
        system = system_prompt(f"{seed} hits", PromptSizer.from_probes(*counts).num_words(LENGTH))
        for number in range(-NUM_WARM_UP, NUM_HITS):
            await asyncio.sleep(PAUSE_S)
            await _take_stamps(session, base_url)
            question = f"{QUESTIONS[number % len(QUESTIONS)]} ({number + NUM_WARM_UP})"
            reply = await client.ask(system, question, max_tokens=1)
            stamps = await _take_stamps(session, base_url)
            if number >= 0:
                for sample in hit_samples(reply, stamps, number):
                    yield sample


async def _take_stamps(session: aiohttp.ClientSession, base_url: str) -> list[tuple[str, float]]:
    async with session.get(f"{base_url}/stamps") as response:
        return [(str(name), float(at_s)) for name, at_s in await response.json()]


async def _print_samples(base_url: str, model: str) -> None:
    async for sample in measure(base_url, model):
        print(json.dumps(asdict(sample)))


def main(folder: str) -> None:
    """Start the server, measure, stop it."""
    command = shlex.join([sys.executable, "-m", "benchmarks.cpu.host_server", folder, "{port}"])
    log = Path(tempfile.mkdtemp(prefix="host-path-")) / "server.log"
    server = Server("host", command, log)
    try:
        server.start()
        asyncio.run(_print_samples(server.base_url, server.model()))
    finally:
        server.stop()


if __name__ == "__main__":
    main(sys.argv[1])
