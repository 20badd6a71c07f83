"""Checks of the arms: that they differ by the cache alone, and that all who tell what it served tell the same."""

from collections.abc import Sequence

from anaphora.lab.arms import HEAD_TOKENS, Mechanism
from anaphora.lab.check import Check
from anaphora.lab.counter_chain import CounterChain
from anaphora.lab.witnesses import cached_by_source, cached_tokens, gaps, prompt_tokens, shares
from anaphora.traces.records import RequestRecord


def off_missed(mechanism: Mechanism, told: Sequence[int | None]) -> Check:
    """No request of the off arm took more from the cache than what stands before the words that make it miss.

    ``told``: cached tokens of each; ``None``: nobody tells.
    """
    name, how, num = "off requests missed", f"off is {mechanism.off_means}", len(told)
    allowed = HEAD_TOKENS if mechanism is Mechanism.NONCE else 0
    cached = [count for count in told if count is not None]
    leaked = sum(count > allowed for count in cached)
    if not told:
        return Check(name, "unknown", "no request was answered with caching off")
    if len(cached) < num:
        return Check(name, "unknown", f"{how}; {num - len(cached)} of {num} do not tell")
    if leaked:
        return Check(name, "warning", f"{how}; yet {leaked} of {num} took tokens from the cache")
    return Check(name, "ok", f"{how}; all {num} show at most {max(cached)} cached tokens")


def on_hit(on: Sequence[RequestRecord]) -> Check:
    """Those of which a hit is expected, or of which nothing is predicted."""
    on = [record for record in on if record.predicted_cached_tokens != 0]
    if not on:
        return Check(
            "on requests hit",
            "warning",
            "no request was expected to hit: as the server renders them, no two prompts begin with the same whole "
            "block (the chat template drops or moves what they share, or blocks are longer than it)",
        )
    cached = [cached_tokens(record) for record in on]
    if None in cached:
        return Check("on requests hit", "unknown", f"{cached.count(None)} of {len(on)} do not tell their cached tokens")
    missed = cached.count(0)
    seen = f"{len(on) - missed} of {len(on)} took tokens from the cache"
    return Check("on requests hit", "warning" if missed else "ok", seen)


def witnesses(on: Sequence[RequestRecord], block_size: int) -> Check:
    """Usage, counters and the prediction say the same of the on arm."""
    said = {name: share for name, share in shares(on).items() if share is not None}
    different = gaps(on, block_size=block_size)
    cached = {f"{share[0]:g} of {share[1]:g}" for share in said.values()}
    by_source = cached_by_source(on)
    parts = ", ".join(f"{name} {count:g}" for name, count in by_source.items())
    from_where = {"metrics": f" ({parts})" if len(by_source) > 1 else ""}
    seen = "; ".join(
        f"{name}: {share[0]:g} of {share[1]:g} tokens cached{from_where.get(name, '')}" for name, share in said.items()
    )
    if len(said) < 2:
        return Check("witnesses agree", "unknown", seen or "no witness speaks")
    if len(cached) == 1 and not different:
        silent = "" if len(said) == 3 else f" ({3 - len(said)} is silent)"
        return Check("witnesses agree", "ok", f"to the token{silent}: {seen}")
    named = "; ".join(f"{count} × {name}" for name, count in different.items())
    return Check("witnesses agree", "warning", f"{seen}. {named}".rstrip(". "))


def counters(records: Sequence[RequestRecord]) -> Check:
    """The counters went forward, kept their names, and counted these requests alone."""
    name, chain = "counters", CounterChain.of(records)
    if not chain.num_readings:
        return Check(name, "unknown", "the target publishes no cache counters")
    if chain.num_resets:
        return Check(
            name,
            "warning",
            f"they went back in {chain.num_resets} requests: the server restarted, or several stand behind the address",
        )
    if len(chain.families) > 1:
        return Check(
            name, "warning", f"their names changed during the run: {', '.join(chain.families)}; none is summed"
        )
    family = chain.families[0]
    if chain.num_foreign_tokens is None:
        return Check(name, "unknown", f"{family} only went forward; whether other requests ran cannot be told from it")
    if chain.num_foreign_tokens:
        return Check(
            name,
            "warning",
            f"{family} counted {chain.num_foreign_tokens:,.0f} tokens more than were sent, in "
            f"{chain.num_requests_with_foreign} of {len(records)} requests: others use this server",
        )
    return Check(name, "ok", f"{family} only went forward and counted no token that was not sent by this run")


def equal_prompts(records: Sequence[RequestRecord]) -> Check:
    """A pair asks the same number of tokens in both arms."""
    counts = [[prompt_tokens(record) for record in pair] for pair in _pairs(records)]
    known = [[count for count in pair if count is not None] for pair in counts]
    if any(len(pair) < 2 for pair in known):
        return Check("equal prompts", "unknown", "the target does not tell its prompt tokens")
    spread = max((max(pair) - min(pair) for pair in known), default=0)
    seen = f"the two prompts of a pair differ by at most {spread} tokens"
    return Check("equal prompts", "ok" if spread <= 1 else "warning", seen)


def equal_answers(records: Sequence[RequestRecord]) -> Check:
    """A pair is answered the same in both arms."""
    pairs = _pairs(records)
    different = sum(first.answer != second.answer for first, second in pairs)
    seen = f"{len(pairs) - different} of {len(pairs)} pairs have the same greedy text in both arms"
    return Check("equal answers", "warning" if different else "ok", seen)


def _pairs(records: Sequence[RequestRecord]) -> list[list[RequestRecord]]:
    """Records of both arms that belong together."""
    by_pair: dict[tuple[str, int, int], dict[str, RequestRecord]] = {}
    for record in records:
        by_pair.setdefault((record.experiment, record.group, record.index), {})[record.arm] = record
    return [list(pair.values()) for pair in by_pair.values() if len(pair) == 2]
