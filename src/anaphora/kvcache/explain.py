"""From a lookup to its ledger: why each token of a prompt was, or was not, taken from the cache."""

from dataclasses import dataclass

from anaphora.kvcache.census import CensusNode
from anaphora.kvcache.ledger import Divergence, Ledger, Reason
from anaphora.kvcache.match import Match
from anaphora.kvcache.memory import NamespaceMemory
from anaphora.kvcache.prefix_index import PrefixIndex
from anaphora.kvcache.prompt_memory import NearestPrompt
from anaphora.kvcache.token_blocks import TOKEN_BYTES, unpack

WINDOW_TOKENS = 16
"""Tokens shown of each prompt from where they part."""


def explain(match: Match, index: PrefixIndex, census: CensusNode, memory: NamespaceMemory | None) -> Ledger:
    """Every token of the prompt in the first class whose rule fits.

    The classes lie in this order along the prompt, in whole blocks until the tail::

        | reused | last_token, or in_flight and evicted mixed | isolated | diverged or new | tail |
        0    num_reused                                 num_own    num_held           num_full
    """
    tokens = match.tokens
    num_tokens, block_size = tokens.num_tokens, tokens.block_size
    if not match.lookup:
        return Ledger(num_tokens, {Reason.BYPASSED: num_tokens})
    num_full = len(tokens.full)
    own, evicted_at = _own_reasons(match, index)
    num_own = len(match.nodes) + len(own)
    num_held = num_own
    parted: _Parted | None = None
    if num_own < num_full:
        num_held = max(num_own, _num_held(match, census))
        parted = _find_parting(match, memory)
    diverged = range(0) if parted is None else parted.blocks
    num_isolated_diverged = _overlap(diverged, num_own, num_held)
    num_diverged = _overlap(diverged, num_held, num_full)
    blocks = {
        Reason.REUSED_DEVICE: len(match.nodes),
        Reason.LAST_TOKEN: own.count(Reason.LAST_TOKEN),
        Reason.IN_FLIGHT: own.count(Reason.IN_FLIGHT),
        Reason.EVICTED: own.count(Reason.EVICTED),
        Reason.ISOLATED: num_held - num_own,
        Reason.DIVERGED: num_diverged,
        Reason.NEW: num_full - num_held - num_diverged,
    }
    counts = {reason: count * block_size for reason, count in blocks.items() if count}
    if num_tokens > num_full * block_size:
        counts[Reason.TAIL] = num_tokens - num_full * block_size
    return Ledger(
        num_tokens,
        counts,
        divergence=parted.divergence if parted and num_diverged + num_isolated_diverged else None,
        evicted_blocks_ago=memory.num_evicted_blocks - evicted_at + 1 if memory and evicted_at else None,
        num_isolated_diverged_tokens=num_isolated_diverged * block_size,
    )


def _own_reasons(match: Match, index: PrefixIndex) -> tuple[list[Reason], int | None]:
    """Classes of the blocks after the match that this namespace's tree knows; when the first of them was evicted."""
    reasons: list[Reason] = []
    evicted_at: int | None = None
    node = match.nodes[-1] if match.nodes else None
    for block_tokens in match.tokens.full[len(match.nodes) :]:
        node = index.child(match.namespace, node, block_tokens)
        if node is None:
            break
        if node.is_usable(match.step):
            reasons.append(Reason.LAST_TOKEN)
        elif node.block is not None:
            reasons.append(Reason.IN_FLIGHT)
        else:
            evicted_at = node.evicted_at if not reasons else evicted_at
            reasons.append(Reason.EVICTED)
    return reasons, evicted_at


def _num_held(match: Match, census: CensusNode) -> int:
    """Blocks from the first on that some namespace has cached."""
    num_matched = len(match.nodes)
    if num_matched and (known := match.nodes[-1].census):  # None if the last one is pending
        return num_matched + known.num_held(match.tokens.full[num_matched:])
    return census.num_held(match.tokens.full)


@dataclass(frozen=True, slots=True)
class _Parted:
    """``blocks``: the ones that would have been shared had the prompts not parted."""

    divergence: Divergence
    blocks: range


def _find_parting(match: Match, memory: NamespaceMemory | None) -> _Parted | None:
    prompt = match.tokens.to_bytes()
    nearest = memory.prompts.nearest(prompt) if memory else None
    if nearest is None or nearest.num_common_tokens == min(nearest.num_tokens, match.tokens.num_tokens):
        return None
    block_size = match.tokens.block_size
    blocks = range(nearest.num_common_tokens // block_size, nearest.num_tokens // block_size)
    return _Parted(_divergence(nearest, prompt), blocks)


def _divergence(nearest: NearestPrompt, prompt: bytes) -> Divergence:
    position = nearest.num_common_tokens
    window = slice(position * TOKEN_BYTES, (position + WINDOW_TOKENS) * TOKEN_BYTES)
    return Divergence(position, nearest.request_id, unpack(nearest.prompt[window]), unpack(prompt[window]))


def _overlap(blocks: range, start: int, stop: int) -> int:
    return max(0, min(blocks.stop, stop) - max(blocks.start, start))
