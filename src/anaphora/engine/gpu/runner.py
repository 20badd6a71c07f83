"""Runs a step's schedule on a device. Small steps are captured passes, and the next step may already be under way."""

import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.gpu.flat_batch import flatten
from anaphora.engine.gpu.launcher import Draw, Launched, PassLauncher
from anaphora.engine.gpu.run_ahead import Ahead, NextToken, predict
from anaphora.engine.input_batch import Chunk, split_into_passes
from anaphora.engine.lack_of_memory import is_lack_of_memory
from anaphora.engine.memory_plan import MAX_LOGITS_ROWS
from anaphora.engine.model_runner import chunk_of, share_out
from anaphora.engine.sampler import SampledToken, sample
from anaphora.errors import StepMemoryError
from anaphora.scheduler.output import ScheduledRequest
from anaphora.types import BlockId, RequestId

Active = Mapping[RequestId, ActiveRequest]
Sampled = dict[RequestId, SampledToken]


class GpuRunner:
    """See :class:`anaphora.engine.model_runner.Runner`."""

    def __init__(self, launcher: PassLauncher, *, block_size: int, max_model_len: int) -> None:
        self._launcher = launcher
        self._block_size = block_size
        self._max_model_len = max_model_len
        self._ahead: Ahead | None = None
        self._unawaited: list[Launched] = []
        self.num_ahead = 0
        """Tokens that were there when they were asked for."""

    @property
    def num_launched(self) -> int:
        """Passes that were given to the device, or could not be."""
        return self._launcher.num_launched

    @property
    def is_ahead(self) -> bool:
        """Whether a step that nobody has asked for is under way."""
        return self._ahead is not None

    @torch.inference_mode()
    def begin(
        self, scheduled: Sequence[ScheduledRequest], active: Active, *, are_alone: bool = False
    ) -> "ComputingPass":
        """Begin to compute a pass. The next step is begun, too, if nobody else is here to join it."""
        ahead, self._ahead = self._ahead, None
        with self.telling_of_memory():
            sampled, landings = self._begin(scheduled, active, ahead, may_run_ahead=are_alone)
            self._hold_back()
        num_launched = None if are_alone else self._launcher.num_launched
        return ComputingPass(self, active, sampled, landings, num_launched)

    def _hold_back(self) -> None:
        """Chunks of which nobody wants a token are not waited for: no more than one is to be under way behind another,
        or whoever comes would stand behind a whole prompt."""
        while self._unawaited:
            self._unawaited.pop().wait()

    @contextmanager
    def telling_of_memory(self) -> Iterator[None]:
        """Nothing stays under way where something is raised, and what is for want of memory says so.

        Raises:
            StepMemoryError: the GPU has no memory left.
        """
        try:
            yield
        except BaseException as error:
            self._ahead = None
            if not is_lack_of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)  # else these would keep what the step has computed so far
            self._launcher.free_unused_memory()
            raise StepMemoryError(
                "the GPU has no memory left for this step: send the request again, or let the server be started with a "
                "lower gpu_memory_utilization or max_num_batched_tokens"
            ) from error

    def _begin(
        self, scheduled: Sequence[ScheduledRequest], active: Active, ahead: Ahead | None, *, may_run_ahead: bool
    ) -> "tuple[Sampled, list[Landing]]":
        tokens = {} if ahead is None else ahead.tokens
        there: list[ScheduledRequest] = []
        rest: list[ScheduledRequest] = []
        rows: dict[RequestId, int] = {}
        for item in scheduled:
            name = item.request.request_id
            token = tokens.get(name)
            if token is not None and token.is_asked_for(item, self._block_size):
                there.append(item)
                rows[name] = token.row
            else:
                rest.append(item)
        if ahead is None or not there:
            return self._compute(scheduled, active, may_run_ahead=may_run_ahead)
        self.num_ahead += len(there)
        self._settle(there, tokens)
        landings = [Landing(ahead.launched, rows)]
        if rest:
            sampled, others = self._compute(rest, active, may_run_ahead=False)
            return sampled, landings + others
        if may_run_ahead:
            self.run_ahead(there, rows, active)
        return {}, landings

    def _settle(self, there: Sequence[ScheduledRequest], tokens: Mapping[RequestId, NextToken]) -> None:
        """Move tokens that were written to spare blocks into the blocks that their requests have by now."""
        moves = []
        for item in there:
            token = tokens[item.request.request_id]
            if token.is_spare:
                moves.append((token.block_id, BlockId(item.block_table[token.position // self._block_size])))
        self._launcher.move_first_tokens(moves)

    def _compute(
        self, scheduled: Sequence[ScheduledRequest], active: Active, *, may_run_ahead: bool
    ) -> "tuple[Sampled, list[Landing]]":
        """Compute parts of a step that are not under way. Of several passes the last alone is still under way then."""
        chunks = [chunk_of(item, active[item.request.request_id]) for item in scheduled]
        sampled: Sampled = {}
        landings: list[Landing] = []
        passes = list(split_into_passes(chunks, MAX_LOGITS_ROWS))
        for chunks_of_pass in passes:
            for landing in landings:
                sampled |= self.landed(landing, active, active)
            landings = []
            if any(len(chunk.logits_positions) > chunk.samples for chunk in chunks_of_pass):
                logits = self._launcher.logits(flatten(chunks_of_pass, self._block_size))
                sampled |= share_out(logits, chunks_of_pass, active)
                continue
            launched, rows = self._launch(chunks_of_pass, active)
            if may_run_ahead and len(passes) == 1:
                self.run_ahead(scheduled, rows, active)
            landings = [Landing(launched, rows)]
        return sampled, landings

    def _launch(self, chunks: Sequence[Chunk], active: Active) -> tuple[Launched, dict[RequestId, int]]:
        names = [chunk.request_id for chunk in chunks if chunk.samples]
        draws = []
        for row, name in enumerate(names):
            state = active[name].sampling
            if not state.params.is_greedy and state.needs_only_logits:
                draws.append(Draw(row, state.params, state.uniform()))
        batch = flatten(chunks, self._block_size)
        return self._launcher.launch(batch, draws), {name: row for row, name in enumerate(names)}

    def run_ahead(self, scheduled: Sequence[ScheduledRequest], rows: Mapping[RequestId, int], active: Active) -> None:
        """Begin the step after the pass that was launched last, if it is clear: see :func:`predict`.

        Where memory does not suffice for that, nothing runs ahead: what was launched before is computed all the same.
        """
        if len(scheduled) > min(self._launcher.max_num_tokens, MAX_LOGITS_ROWS):
            return
        predicted = predict(scheduled, rows, active, self._block_size, self._max_model_len, self._launcher.spare_blocks)
        if predicted is not None:
            try:
                launched = self._launcher.launch(predicted.batch, predicted.draws)
            except Exception as error:
                if not is_lack_of_memory(error):
                    raise
                traceback.clear_frames(error.__traceback__)
                self._launcher.free_unused_memory()
            else:
                self._ahead = Ahead(launched, predicted.tokens)

    def landed(self, landing: "Landing", wanted: Collection[RequestId], active: Active) -> Sampled:
        """The tokens of a pass; what needs more than its likeliest one goes to the host's sampler."""
        rows = {name: row for name, row in landing.rows.items() if name in wanted}
        if not rows:
            self._unawaited.append(landing.launched)
            return {}
        token_ids = landing.launched.token_ids()
        states = {name: active[name].sampling for name in rows}
        on_host = {name: rows[name] for name, state in states.items() if not state.needs_only_logits}
        sampled = {name: SampledToken(token_ids[row]) for name, row in rows.items() if name not in on_host}
        if on_host:
            logits = landing.launched.logits[list(on_host.values())].float().cpu()
            tokens = sample(logits, [states[name] for name in on_host])
            sampled |= dict(zip(on_host, tokens, strict=True))
        return sampled


class Landing(NamedTuple):
    """A pass under way, and the rows of its logits by request."""

    launched: Launched
    rows: Mapping[RequestId, int]


class ComputingPass:
    """See :class:`anaphora.engine.model_runner.Computation`."""

    def __init__(
        self, runner: GpuRunner, active: Active, sampled: Sampled, landings: Sequence[Landing], num_launched: int | None
    ) -> None:
        """``sampled``: what is there already. ``num_launched``: so many passes were, with this one; ``None``: what can
        run ahead of it does."""
        self._runner = runner
        self._active = active
        self._sampled = sampled
        self._landings = landings
        self._num_launched = num_launched
        names = [name for landing in landings for name in landing.rows]
        # captured passes share their logits: what the host reads of them it must read before the next one
        self._is_settled = not runner.is_ahead and all(active[name].sampling.needs_only_logits for name in names)

    @property
    def may_be_followed(self) -> bool:
        """See :class:`anaphora.engine.model_runner.Computation`."""
        return self._is_settled

    @torch.inference_mode()
    def go_on(self, scheduled: Sequence[ScheduledRequest]) -> None:
        """See :class:`anaphora.engine.model_runner.Computation`."""
        is_last = self._runner.num_launched == self._num_launched
        # the device has the tokens of the launch that was the last one, and no others
        if is_last and len(self._landings) == 1 and not self._sampled:
            with self._runner.telling_of_memory():
                self._runner.run_ahead(scheduled, self._landings[0].rows, self._active)

    @torch.inference_mode()
    def tokens(self, wanted: Collection[RequestId]) -> Sampled:
        """See :class:`anaphora.engine.model_runner.Computation`."""
        found = {name: token for name, token in self._sampled.items() if name in wanted}
        with self._runner.telling_of_memory():
            for landing in self._landings:
                found |= self._runner.landed(landing, wanted, self._active)
        return found
