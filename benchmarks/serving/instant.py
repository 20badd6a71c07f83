"""An engine whose model answers at once: what is left of a request is the host's work."""

from collections.abc import Mapping, Sequence

from anaphora.checkpoints import Checkpoint, find_checkpoint
from anaphora.engine import EngineConfig
from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.engine_core import EngineCore
from anaphora.engine.model_runner import Computed
from anaphora.engine.plan import EnginePlan, KVCapacity
from anaphora.engine.sampler import SampledToken
from anaphora.engine.startup import LoadedEngine
from anaphora.kvcache.config import CacheConfig
from anaphora.scheduler.config import SchedulerConfig
from anaphora.scheduler.output import ScheduledRequest
from anaphora.scheduler.scheduler import Scheduler
from anaphora.tokenizer.tokenizer import Tokenizer
from anaphora.types import RequestId

MODEL_NAME = "instant"
MAX_MODEL_LEN = 40_000
NUM_BLOCKS = 20_000
BLOCK_SIZE = 16
TOKEN_ID = 500
"""Any token with text."""


class InstantRunner:
    """See :class:`anaphora.engine.model_runner.Runner`: the same token for all, and no tensors."""

    def begin(
        self,
        scheduled: Sequence[ScheduledRequest],
        active: Mapping[RequestId, ActiveRequest],
        *,
        are_alone: bool = False,
    ) -> Computed:
        """A token for every request whose prompt is computed by this step."""
        return Computed({item.request.request_id: SampledToken(TOKEN_ID) for item in scheduled if item.samples})


def instant_core(tokenizer: Tokenizer) -> EngineCore:
    """Scheduler and cache core of an engine with room for many long prompts."""
    scheduler = Scheduler(
        SchedulerConfig(max_num_seqs=256, max_num_batched_tokens=8192, max_model_len=MAX_MODEL_LEN),
        CacheConfig(num_blocks=NUM_BLOCKS, block_size=BLOCK_SIZE),
    )
    return EngineCore(scheduler, InstantRunner(), vocab_size=tokenizer.vocab_size, eos_token_ids=())


def load_instant(config: EngineConfig, checkpoint: Checkpoint | None) -> LoadedEngine:
    """As ``load_engine``, with the checkpoint's tokenizer and nothing else of it."""
    folder = (checkpoint or find_checkpoint(config.model, needs_weights=False)).path
    tokenizer = Tokenizer.from_folder(folder)
    core = instant_core(tokenizer)
    plan = EnginePlan(
        dtype="float32",
        is_on_gpu=False,
        max_model_len=MAX_MODEL_LEN,
        kv_capacity=KVCapacity(NUM_BLOCKS, NUM_BLOCKS * BLOCK_SIZE, NUM_BLOCKS * BLOCK_SIZE),
        cache=core.scheduler.cache.config,
        scheduler=core.scheduler.config,
    )
    return LoadedEngine(core, tokenizer, plan, MODEL_NAME, tokenizer.vocab_size)
