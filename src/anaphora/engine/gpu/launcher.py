"""Starts passes and does not wait for them: packs inputs, replays the graph that fits or computes without, samples."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import cycle

import torch

from anaphora.engine.gpu.buckets import bucket_of
from anaphora.engine.gpu.captured import captured_steps
from anaphora.engine.gpu.device_sampler import draw_rows
from anaphora.engine.gpu.flat_batch import FlatBatch, logits_rows_alone
from anaphora.engine.gpu.graphs import Capture, Pass
from anaphora.engine.gpu.step_inputs import DeviceInputs, HostInputs, Room
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS
from anaphora.engine.sampling_params import SamplingParams
from anaphora.models.attention.tasks import TaskPlan
from anaphora.models.attention.tiles import TileConfig
from anaphora.models.device.batch import DeviceBatch, DeviceTasks
from anaphora.models.device.causal_lm import DeviceLM
from anaphora.models.kv_cache import PagedKVCache
from anaphora.types import BlockId

NUM_BUFFERS = 4
"""For the inputs of captured passes: none waits for the device to read one, as long as no more are under way."""


@dataclass(frozen=True, slots=True)
class Draw:
    """A row of logits to be drawn at random."""

    row: int
    params: SamplingParams
    uniform: float


@dataclass(frozen=True, slots=True)
class Launched:
    """A pass that the device is computing, or has computed."""

    logits: torch.Tensor
    """``[at least R, vocab_size]`` on the device; captured passes overwrite each other's."""
    _token_ids: torch.Tensor
    _event: torch.cuda.Event | None

    def wait(self) -> None:
        """Until it is computed."""
        if self._event is not None:
            self._event.synchronize()

    def token_ids(self) -> list[int]:
        """Wait for the sampled tokens, one for each row of logits."""
        self.wait()
        ids: list[int] = self._token_ids.tolist()
        return ids


def compute(model: DeviceLM, kv: PagedKVCache, batch: FlatBatch, plan: TaskPlan, sampled: torch.Tensor) -> torch.Tensor:
    """A pass operator by operator, in just the room that it needs. Returns its logits on the device."""
    whole = _sent(model, batch, plan, sampled)
    if 0 < 2 * len(batch.logits_rows) <= batch.num_tokens:
        whole = replace(whole, last_tasks=partial(_tasks_of_logits_rows, model, batch, sampled))
    return model.forward(whole, kv)


def _tasks_of_logits_rows(model: DeviceLM, batch: FlatBatch, sampled: torch.Tensor) -> DeviceTasks:
    alone = logits_rows_alone(batch)
    return _sent(model, alone, model.attention.plan_spans(alone.spans), sampled).tasks


def _sent(model: DeviceLM, batch: FlatBatch, plan: TaskPlan, sampled: torch.Tensor) -> DeviceBatch:
    room = Room.of(batch, plan)
    host = HostInputs(room, pinned=model.device.type == "cuda", reused=False)
    inputs = DeviceInputs(room, model.device)
    inputs.send(host, host.fill(batch, plan))
    workspace = model.attention.workspace(plan.num_parts)
    return inputs.batch(room.num_tokens, room.num_rows, plan.config, workspace, sampled, plan)


class PassLauncher:
    """Passes over one model and its KV tensors, in the order in which they are launched."""

    def __init__(
        self,
        model: DeviceLM,
        kv: PagedKVCache,
        *,
        room: Room,
        buckets: tuple[int, ...],
        capture: Capture,
        num_spare_blocks: int = 0,
    ) -> None:
        """``room``: of captured passes, whose tokens are padded to one of ``buckets`` (none: nothing is captured).

        The last ``num_spare_blocks`` of ``kv`` are nobody's: see :mod:`anaphora.engine.gpu.run_ahead`.
        """
        self._model = model
        self.spare_blocks = tuple(BlockId(kv.num_blocks - 1 - index) for index in range(num_spare_blocks))
        self._kv = kv
        self._buckets = buckets
        self._capture = capture
        self._is_cuda = model.device.type == "cuda"
        self._inputs = DeviceInputs(room, model.device)
        self._inputs.clear()  # captured passes are first run on it
        self._workspace = model.attention.workspace(room.num_parts)
        self._hosts = cycle([HostInputs(room, pinned=self._is_cuda) for _ in range(NUM_BUFFERS)])
        self._sampled = torch.zeros(MAX_LOGITS_ROWS, dtype=torch.int32, device=model.device)
        self.num_launched = 0
        """Passes that were begun, or could not be: the device has the sampled tokens of the last one alone."""
        self._logits: torch.Tensor | None = None
        """Of all captured passes: a tensor for each of them would come to gigabytes."""
        self._passes: dict[tuple[int, TileConfig], Pass] = {}

    @property
    def max_num_tokens(self) -> int:
        """Of a captured pass."""
        return self._buckets[-1] if self._buckets else 0

    @property
    def num_captured(self) -> int:
        """Passes that can be replayed."""
        return len(self._passes)

    @torch.inference_mode()
    def capture_all(self) -> None:
        """Record every pass that small steps can need: no request then waits for one to be compiled or recorded.

        The largest come first, so that the others find room in their memory. To be called before the first launch.
        """
        for num_tokens, config in captured_steps(self._model.attention.step_configs, self._buckets):
            self._capture_once(num_tokens, config)
        self.move_first_tokens([(block_id, block_id) for block_id in self.spare_blocks[:1]])  # its kernel is loaded

    def _capture_once(self, num_tokens: int, config: TileConfig) -> None:
        """Record the pass for a bucket now, if it is not there; its inputs are whatever was sent last."""
        if (num_tokens, config) in self._passes:
            return
        if self._logits is None:
            shape = self._inputs.room.num_rows, self._model.config.vocab_size
            self._logits = torch.empty(shape, dtype=self._model.dtype, device=self._model.device)
        num_rows = min(num_tokens, self._inputs.room.num_rows)
        room = self._logits[:num_rows]
        batch = self._inputs.batch(num_tokens, num_rows, config, self._workspace, self._sampled)

        def compute() -> torch.Tensor:
            logits = self._model.forward(batch, self._kv, room)
            self._model.operators.argmax(logits, self._sampled[:num_rows])
            return logits

        self._passes[num_tokens, config] = self._capture(compute)

    def launch(self, batch: FlatBatch, draws: Sequence[Draw] = ()) -> Launched:
        """Compute a pass and sample every row of logits: at random where ``draws`` say so, else the likeliest token.

        A token id ``-1 - i`` is the token that row ``i`` of the pass before has sampled.
        """
        self.num_launched += 1
        plan = self._model.attention.plan_spans(batch.spans)
        bucket = bucket_of(batch.num_tokens, self._buckets) if self._buckets else None
        if bucket is not None and self._inputs.room.holds(batch, plan):
            logits = self._replay(batch, plan, bucket)
        else:
            logits = compute(self._model, self._kv, batch, plan, self._sampled)
            self._model.operators.argmax(logits, self._sampled[: len(logits)])
        if draws:
            rows, params, uniforms = zip(*((draw.row, draw.params, draw.uniform) for draw in draws), strict=True)
            draw_rows(logits, rows, params, uniforms, self._sampled)
        return self._sent_back(logits, len(batch.logits_rows))

    def logits(self, batch: FlatBatch) -> torch.Tensor:
        """Compute a pass without sampling: ``[R, vocab_size]`` float32, on the host."""
        plan = self._model.attention.plan_spans(batch.spans)
        return compute(self._model, self._kv, batch, plan, self._sampled).float().cpu()

    def move_first_tokens(self, moves: Sequence[tuple[BlockId, BlockId]]) -> None:
        """Copy the keys and values of the first token of blocks to other blocks, after all that was launched."""
        if not moves:
            return
        slots = [[block_id * self._kv.block_size for block_id in move] for move in moves]
        # page-locked, so that nothing waits for the passes that are under way
        pairs = torch.tensor(slots, dtype=torch.int32, pin_memory=self._is_cuda)
        self._model.operators.move_slots(self._kv.storage, pairs.to(self._model.device, non_blocking=True))

    def free_unused_memory(self) -> None:
        """After a step that found no memory: wait for what is under way, and give back what nobody uses."""
        if self._is_cuda:
            torch.cuda.synchronize(self._model.device)
            torch.cuda.empty_cache()

    def _replay(self, batch: FlatBatch, plan: TaskPlan, bucket: int) -> torch.Tensor:
        host = next(self._hosts)
        self._inputs.send(host, host.fill(batch, plan))
        self._capture_once(bucket, plan.config)
        return self._passes[bucket, plan.config]()

    def _sent_back(self, logits: torch.Tensor, num_rows: int) -> Launched:
        token_ids = torch.empty(num_rows, dtype=torch.int32, pin_memory=self._is_cuda)
        token_ids.copy_(self._sampled[:num_rows], non_blocking=True)
        event = None
        if self._is_cuda:
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        return Launched(logits, token_ids, event)
