"""The usage object: tokens of one HTTP request, with the cached ones always, and the ledger if asked for."""

from collections import Counter
from collections.abc import Sequence

from anaphora.engine import EngineUsage, Ledger
from anaphora.protocol.answers import LedgerDivergence, LedgerView, PromptTokensDetails, TokenWindow, Usage
from anaphora.tokenizer.tokenizer import Tokenizer


def usage_of(choices: Sequence[EngineUsage], *, num_samples: int, ledger_tokenizer: Tokenizer | None = None) -> Usage:
    """Usage of all choices (prompt by prompt, ``num_samples`` each): a prompt counts once, as its first sample saw it.

    ``ledger_tokenizer``: turns the ledger's token windows into text; ``None`` leaves the ledger out.
    """
    prompts = choices[::num_samples]
    num_prompt = sum(usage.num_prompt_tokens for usage in prompts)
    num_output = sum(usage.num_output_tokens for usage in choices)
    details: PromptTokensDetails = {"cached_tokens": sum(usage.num_cached_tokens for usage in prompts)}
    if ledger_tokenizer is not None:
        details["ledger"] = ledger_view([usage.ledger.for_tenant() for usage in prompts], ledger_tokenizer)
    return {
        "prompt_tokens": num_prompt,
        "completion_tokens": num_output,
        "total_tokens": num_prompt + num_output,
        "prompt_tokens_details": details,
    }


def ledger_view(ledgers: Sequence[Ledger], tokenizer: Tokenizer) -> LedgerView:
    """Counts over all prompts; where they parted and when they were evicted for a single prompt only.

    Give tenants their own view of a ledger (``Ledger.for_tenant``).
    """
    counts: Counter[str] = Counter()
    for ledger in ledgers:
        counts.update({reason.value: count for reason, count in ledger.counts.items() if count})
    single = ledgers[0] if len(ledgers) == 1 else None
    return {
        "reasons": dict(counts),
        "divergence": None if single is None else _divergence(single, tokenizer),
        "evicted_blocks_ago": None if single is None else single.evicted_blocks_ago,
    }


def _divergence(ledger: Ledger, tokenizer: Tokenizer) -> LedgerDivergence | None:
    parted = ledger.divergence
    if parted is None:
        return None
    return {
        "position": parted.position,
        "earlier_request_id": parted.earlier_request_id,
        "expected": token_window(parted.expected, tokenizer),
        "found": token_window(parted.found, tokenizer),
    }


def token_window(token_ids: Sequence[int], tokenizer: Tokenizer) -> TokenWindow:
    """A few tokens as ids and text, special tokens included."""
    return {"token_ids": list(token_ids), "text": tokenizer.decode(token_ids, skip_special_tokens=False)}
