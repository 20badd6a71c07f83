"""Our server with its real tokenizer, scheduler and prefix cache, and a model that answers at once.

python -m benchmarks.cpu.host_server MODEL_FOLDER PORT

What a hit then takes is the host's work alone. Stamps are laid down where the request passes from one room to the next;
``GET /stamps`` gives those of the last requests and forgets them.
"""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
import uvloop
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anaphora.checkpoints import Checkpoint, find_checkpoint
from anaphora.engine import AsyncEngine, EngineConfig
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.model_runner import ModelRunner
from anaphora.engine.startup import LoadedEngine
from anaphora.models.batch import ForwardBatch
from anaphora.models.kv_cache import PagedKVCache
from anaphora.scheduler.output import SchedulerOutput
from anaphora.scheduler.scheduler import Scheduler
from anaphora.server.app import build_app
from anaphora.server.listener import bind
from anaphora.server.process import ServerProcess
from anaphora.server.settings import ServerSettings
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import Namespace

if TYPE_CHECKING:
    from array import array

MODEL_NAME = "instant"
TOKEN_ID = 500  # any token with text

Stamps = list[tuple[str, float]]
"""What was reached, and when (``time.perf_counter``, which all processes of a Linux machine share)."""


class StampedTokenizer(Tokenizer):
    """Says when a prompt's rendering begins, and when its ids are there."""

    stamps: Stamps

    def apply_chat_template(self, messages: Sequence[Mapping[str, Any]], /, **options: Any) -> str:
        self.stamps.append(("parsed", time.perf_counter()))
        return super().apply_chat_template(messages, **options)

    def encode_rendered(self, text: str, owner: Namespace) -> "array[int]":
        ids = super().encode_rendered(text, owner)
        self.stamps.append(("tokenised", time.perf_counter()))
        return ids


class StampedScheduler(Scheduler):
    """Says when a step's schedule is begun, and when it is there."""

    stamps: Stamps

    def schedule(self) -> SchedulerOutput | None:
        started_s = time.perf_counter()
        output = super().schedule()
        if output is not None:
            self.stamps += [("handed_over", started_s), ("scheduled", time.perf_counter())]
        return output


class InstantModel:
    """Always the same token. Takes no time, and computes no keys or values."""

    def __init__(self, vocab_size: int, stamps: Stamps) -> None:
        self._row = torch.zeros(1, vocab_size)
        self._row[0, TOKEN_ID] = 1.0
        self._stamps = stamps

    def forward(self, batch: ForwardBatch, kv: PagedKVCache) -> torch.Tensor:
        """Logits of each wanted row."""
        self._stamps.append(("batched", time.perf_counter()))
        return self._row.expand(len(batch.logits_rows), -1)


def load(config: EngineConfig, checkpoint: Checkpoint | None, stamps: Stamps) -> LoadedEngine:
    """As ``load_engine``, but for the weights and for the memory of keys and values."""
    checkpoint = checkpoint or find_checkpoint(config.model)
    plan = config.resolve(checkpoint.config)
    tokenizer = StampedTokenizer.from_folder(checkpoint.path)
    scheduler = StampedScheduler(plan.scheduler, plan.cache)
    tokenizer.stamps = scheduler.stamps = stamps
    vocab_size = checkpoint.config.vocab_size
    kv = PagedKVCache(
        num_layers=0, num_kv_heads=1, head_dim=1, num_blocks=1, block_size=config.block_size, dtype=torch.float32
    )
    runner = ModelRunner(InstantModel(vocab_size, stamps), kv)
    core = EngineCore(scheduler, runner, vocab_size=vocab_size, eos_token_ids=())
    return LoadedEngine(core, tokenizer, plan, MODEL_NAME, vocab_size)


async def serve(folder: str, port: int) -> None:
    """Serve until killed."""
    stamps: Stamps = []
    engine = await AsyncEngine.start(EngineConfig(model=folder), load=lambda c, p: load(c, p, stamps))

    async def take_stamps(_: Request) -> Response:
        taken = list(stamps)
        stamps.clear()
        return JSONResponse(taken)

    app = build_app(engine, ServerSettings(served_model_names=(MODEL_NAME,)))
    app.router.routes.append(Route("/stamps", take_stamps))
    process = ServerProcess(
        app, stop_engine=lambda drain_s: engine.shutdown(drain_s=drain_s), drain_s=0, access_log=True
    )
    await process.serve(sockets=[bind("127.0.0.1", port)])


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1], int(sys.argv[2])))
