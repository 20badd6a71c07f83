"""The step after this one, begun before this one's tokens are known to the host.

While a pass runs, the next one is already clear if all that its requests will do is to go on by a token: its inputs are
what the pass samples, and those stay on the device. So it is launched at once, and the host schedules, detokenises and
sends while the device computes. The scheduler knows nothing of this. When it then asks for just these tokens, they are
there; what it does not ask for (a request met a stop token, was aborted or preempted) is dropped. Nothing has to be
undone: such a token's key and value lie in the unfinished block that was the request's own, which nobody reads and its
next owner writes first, for passes are computed in the order in which they are launched.

A token that begins a block comes before the scheduler has given its request one. It is written to a *spare* block, of
which the scheduler knows nothing; once the block is there, the token is copied to it, in the order of passes. Of many
requests one begins a block in almost every step: without this few steps of theirs could run ahead.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from anaphora.engine.active_request import ActiveRequest
from anaphora.engine.gpu.flat_batch import FlatBatch, one_token_each
from anaphora.engine.gpu.launcher import Draw, Launched
from anaphora.scheduler.output import ScheduledRequest
from anaphora.scheduler.request import Request
from anaphora.types import BlockId, RequestId


class NextToken(NamedTuple):
    """One request's part of a pass that runs ahead: one token, whose logits are row ``row``."""

    request: Request
    row: int
    position: int
    block_id: BlockId
    """Where its key and value are written."""
    is_spare: bool
    """Whether that block is not the request's."""

    def is_asked_for(self, item: ScheduledRequest, block_size: int) -> bool:
        """Whether the scheduler wants just this."""
        return (
            item.request is self.request
            and item.start == self.position
            and item.num_new_tokens == 1
            and item.samples
            and (self.is_spare or item.block_table[self.position // block_size] == self.block_id)
        )


@dataclass(frozen=True, slots=True)
class Ahead:
    """A pass that runs ahead, by request."""

    launched: Launched
    tokens: Mapping[RequestId, NextToken]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the next step will be if no request comes, ends early or needs a block."""

    batch: FlatBatch
    draws: tuple[Draw, ...]
    tokens: Mapping[RequestId, NextToken]


def predict(
    scheduled: Sequence[ScheduledRequest],
    rows: Mapping[RequestId, int],
    active: Mapping[RequestId, ActiveRequest],
    block_size: int,
    max_model_len: int,
    spare_blocks: Sequence[BlockId],
) -> Prediction | None:
    """The step after ``scheduled``, whose tokens will be sampled in ``rows`` of the pass that has just been launched.

    A request without a row is in no pass: its last token is known. ``None`` if the step is not clear, if more requests
    begin a block than there are ``spare_blocks``, or if nothing will be left to do.
    """
    spares = iter(spare_blocks)
    token_ids: list[int] = []
    block_tables: list[array[int]] = []
    draws: list[Draw] = []
    tokens: dict[RequestId, NextToken] = {}
    for item in scheduled:
        request, position, block_table = item.request, item.end, item.block_table
        name = request.request_id
        state = active[name].sampling
        if not item.samples or not state.needs_only_logits:
            return None
        row = rows.get(name)
        if (row is not None and request.num_output_tokens + 1 >= request.max_tokens) or position + 1 >= max_model_len:
            continue  # it ends with the token that is being sampled
        block, spare = position // block_size, None
        if block >= len(block_table):
            spare = next(spares, None)
            if spare is None:
                return None
            block_table = block_table + array("I", (spare,))
        if not state.params.is_greedy:
            draws.append(Draw(len(tokens), state.params, state.uniform(num_ahead=int(row is not None))))
        tokens[name] = NextToken(request, len(tokens), position, BlockId(block_table[block]), spare is not None)
        token_ids.append(request.token_ids(position, position + 1)[0] if row is None else -1 - row)
        block_tables.append(block_table)
    if not tokens:
        return None
    positions, block_ids = [t.position for t in tokens.values()], [t.block_id for t in tokens.values()]
    batch = one_token_each(token_ids, positions, block_ids, block_tables, block_size)
    return Prediction(batch, tuple(draws), tokens)
