"""From a lookup to its ledger: why each token of a prompt was, or was not, taken from the cache."""

from collections.abc import Iterable

from anaphora.kvcache.block_table import BlockTable
from anaphora.kvcache.census import CensusRun
from anaphora.kvcache.extent import Extent
from anaphora.kvcache.ledger import Divergence, Ledger, Reason
from anaphora.kvcache.match import Match
from anaphora.kvcache.memory import NamespaceMemory
from anaphora.kvcache.prefix_index import PrefixIndex
from anaphora.kvcache.prompt_memory import WINDOW_UNITS, NearestPrompt
from anaphora.kvcache.token_blocks import TokenBlocks, num_common_units, units_of, unpack


def explain(
    match: Match,
    index: PrefixIndex,
    census: CensusRun | None,
    memory: NamespaceMemory | None,
    num_running_blocks: int = 0,
) -> Ledger:
    """Every token of the prompt in the first class whose rule fits.

    ``num_running_blocks``: so many of its blocks, from the first on, running requests have or will compute. The classes
    lie in this order along the prompt, in whole blocks until the tail::

        | reused | last_token, or in_flight and evicted mixed | isolated | diverged or new | tail |
        0    num_reused                                 num_own    num_held           num_full
    """
    tokens = match.tokens
    num_tokens, num_full = tokens.num_tokens, tokens.num_full
    if not match.lookup:
        return Ledger(num_tokens, {Reason.BYPASSED: num_tokens})
    num_blocks, evicted_at = _own_reasons(match, index, num_running_blocks)
    num_held = num_own = match.num_blocks + sum(num_blocks.values())
    num_diverged = num_isolated_diverged = 0
    divergence: Divergence | None = None
    if num_own < num_full:
        num_held = max(num_own, census.num_held(tokens) if census else 0, _num_held_by_main(match, index))
        prompt = tokens.to_bytes()
        nearest = memory.prompts.nearest(prompt) if memory else None
        if nearest is not None:
            num_shared, num_earlier = _num_blocks_in_common(nearest, tokens)
            num_diverged = max(0, min(num_earlier, num_full) - max(num_shared, num_held))
            num_isolated_diverged = max(0, min(num_earlier, num_held) - max(num_shared, num_own))
            if num_diverged or num_isolated_diverged:
                divergence = _divergence(nearest, prompt, tokens.tokens_per_unit)
    num_blocks[Reason.REUSED_DEVICE] = match.num_blocks
    num_blocks[Reason.ISOLATED] = num_held - num_own
    num_blocks[Reason.DIVERGED] = num_diverged
    num_blocks[Reason.NEW] = num_full - num_held - num_diverged
    return Ledger(
        num_tokens,
        _count_tokens(num_blocks, num_tokens, tokens.block_size),
        divergence=divergence,
        evicted_blocks_ago=memory.num_evicted_blocks - evicted_at + 1 if memory and evicted_at else None,
        num_isolated_diverged_tokens=num_isolated_diverged * tokens.block_size,
    )


def num_running_blocks(match: Match, tables: Iterable[BlockTable]) -> int:
    """Full blocks, from the first on, that a running request of the namespace has or will compute.

    Requests whose known blocks are all in the index are left out: they tell nothing new.
    """
    num_blocks, packed = match.num_blocks, memoryview(match.tokens.packed)
    for table in tables:
        known = table.tokens
        if known.num_full > table.num_indexed + table.num_pending and table.namespace == match.namespace:
            num_blocks = max(num_blocks, num_common_units(known.packed, packed, match.tokens.width))
    return num_blocks


def _num_held_by_main(match: Match, index: PrefixIndex) -> int:
    """How many of the blocks the main namespace, which the census leaves out, has cached, if it is not the asker."""
    num_held = 0
    if index.main not in (None, match.namespace):
        for extent, num_common in index.walk(index.main, match.tokens, match.tokens.num_full):
            if not extent.is_usable(None):
                break
            num_held += num_common
    return num_held


def _count_tokens(num_blocks: dict[Reason, int], num_tokens: int, block_size: int) -> dict[Reason, int]:
    counts = {reason: count * block_size for reason, count in num_blocks.items() if count}
    if num_tail := num_tokens % block_size:
        counts[Reason.TAIL] = num_tail
    return counts


def _own_reasons(match: Match, index: PrefixIndex, num_running_blocks: int) -> tuple[dict[Reason, int], int | None]:
    """Blocks after the match that this namespace knows, by class; when the first of them was evicted."""
    num_blocks: dict[Reason, int] = {}
    evicted_at: int | None = None
    num_before = match.num_whole_blocks  # the match may end inside its last extent: the walk begins with that
    skip = match.num_blocks - num_before
    after = match.extents[-1].parent if match.extents else None
    position = match.num_blocks
    for extent, num_known in index.walk(
        match.namespace, match.tokens, match.tokens.num_full, after=after, position=num_before
    ):
        stop, skip = position + num_known - skip, 0
        reason = _reason(extent, match.step)
        if reason is Reason.EVICTED:
            if num_running_blocks > position:
                num_running = min(num_running_blocks, stop) - position
                num_blocks[Reason.IN_FLIGHT] = num_blocks.get(Reason.IN_FLIGHT, 0) + num_running
                position += num_running
            elif position == match.num_blocks:
                evicted_at = extent.evicted_at
        num_blocks[reason] = num_blocks.get(reason, 0) + stop - position
        position = stop
    if num_running_blocks > position:
        num_blocks[Reason.IN_FLIGHT] = num_blocks.get(Reason.IN_FLIGHT, 0) + num_running_blocks - position
    return num_blocks, evicted_at


def _reason(extent: Extent, step: int | None) -> Reason:
    """The class of a block that is known, but does not belong to the match."""
    if extent.is_usable(step):
        return Reason.LAST_TOKEN
    return Reason.IN_FLIGHT if extent.is_attached else Reason.EVICTED


def _num_blocks_in_common(nearest: NearestPrompt, tokens: TokenBlocks) -> tuple[int, int]:
    """Up to where the earlier prompt is the same, and where it ends: what lies between would have been shared had the
    prompts not parted.
    """
    units_per_block = tokens.block_size // tokens.tokens_per_unit
    return nearest.num_common_units // units_per_block, nearest.num_units // units_per_block


def _divergence(nearest: NearestPrompt, prompt: bytes, tokens_per_unit: int) -> Divergence:
    start = nearest.num_common_units
    found = unpack(units_of(prompt, start, start + WINDOW_UNITS))
    return Divergence(start * tokens_per_unit, nearest.request_id, unpack(nearest.next_units), found)
