"""Does a repeated prompt hit? And if not: which cause, shown by an experiment rather than guessed."""

from statistics import median

from anaphora.errors import TargetError
from anaphora.lab.doctor.check import Check, fault, not_applicable, ok, warning
from anaphora.lab.doctor.visit import Sample, Visit
from anaphora.lab.salts import salt_of

NAME = "prefix cache"
_UNITS = 600
_ROUGH_TOKENS_PER_UNIT = 2
_FEWEST_TOKENS_PER_UNIT = 0.25
_REPEATS = 6
_PAIRS = 3
_CLEARLY_FASTER = 0.8


async def prefix_cache(visit: Visit) -> Check:
    """The same prompt twice: the second time its beginning should come from the cache."""
    num_units = _fitting(visit, _UNITS)
    first, again = await _twice(visit, "hit", num_units)
    if again.num_prompt_tokens is not None and again.num_prompt_tokens < num_units * _FEWEST_TOKENS_PER_UNIT:
        return fault(
            NAME,
            f"a prompt of {num_units} words came to {again.num_prompt_tokens} tokens: the chat template, or something "
            "before the server, leaves the system message out",
            "correct the chat template; what is not in the prompt is neither read by the model nor shared",
        )
    cached = again.num_cached_tokens
    if cached is None:
        return await _by_time(visit, num_units)
    if cached > 0:
        return _hit(visit, first, again)
    if again.counted is not None and again.counted.cached > 0:
        return warning(
            NAME,
            f"the answer tells 0 cached tokens, the server's counters {again.counted.cached:g} for the same request",
            "trust the counters; the usage of this server, or of a proxy before it, is wrong",
        )
    return await _cause(visit, num_units, again) or fault(
        NAME,
        f"no repeated prompt hit, at no length and with no salt ({again.num_prompt_tokens} tokens and others)",
        f"caching seems to be off: {visit.kind.enable_caching}",
    )


def _hit(visit: Visit, first: Sample, again: Sample) -> Check:
    seen = f"{again.num_cached_tokens} of {again.num_prompt_tokens} tokens of a repeated prompt came from the cache"
    if again.usage_cached and again.counted and again.counted.unit == "tokens":
        if again.counted.cached != again.usage_cached:
            return warning(
                NAME,
                f"{seen} by its usage, {again.counted.cached:g} by the counters",
                "other requests ran meanwhile, or one of the two is wrong: ask again on a quiet server",
            )
        seen += ", by usage and counters alike"
    if first.ttft_ms and again.ttft_ms:
        seen += f"; TTFT {first.ttft_ms:.0f} → {again.ttft_ms:.0f} ms"
    return ok(NAME, seen)


async def _by_time(visit: Visit, num_units: int) -> Check:
    """No witness speaks: only the clock can tell, and only roughly."""
    pairs = [await _twice(visit, f"time {number}", num_units) for number in range(_PAIRS)]
    times = [(first.ttft_ms, again.ttft_ms) for first, again in pairs]
    if any(new is None or repeated is None for new, repeated in times):
        return not_applicable(NAME, "the server tells no cached tokens, and without streaming there is no time to see")
    new = median(first for first, _ in times if first is not None)
    repeated = median(again for _, again in times if again is not None)
    seen = f"not told by the server; TTFT of new prompts {new:.0f} ms, of repeated ones {repeated:.0f} ms"
    hint = "so repeated ones seem to hit" if repeated < _CLEARLY_FASTER * new else "so none seem to hit"
    return warning(NAME, f"{seen}, {hint}", visit.kind.show_cached_tokens)


async def _cause(visit: Visit, num_units: int, again: Sample) -> Check | None:
    """The cause of a hit rate of 0, of those that can be shown from outside; the surest are tried first."""
    for search in (_declared_off, _replicas, _isolated, _below_a_block, _evicted):
        found = await search(visit, num_units, again)
        if found is not None:
            return found
    return None


async def _declared_off(visit: Visit, num_units: int, again: Sample) -> Check | None:
    if str(visit.cache_setting("enable_prefix_caching")).lower() == "false":
        return fault(NAME, "the server says that prefix caching is off", visit.kind.enable_caching)
    if again.counted is not None and again.counted.queried == 0:
        return fault(
            NAME,
            "a repeated prompt was answered and the counters of looked-up tokens did not move: caching is off",
            visit.kind.enable_caching,
        )
    return None


async def _replicas(visit: Visit, num_units: int, again: Sample) -> Check | None:
    """The same prompt again and again: with several servers behind one address, it comes to a warm one sooner or
    later."""
    request = visit.prompt("hit", num_units)
    hits = [(await visit.sample(request)).num_cached_tokens or 0 for _ in range(_REPEATS)]
    num_hits = sum(cached > 0 for cached in hits)
    if not num_hits:
        return None
    return fault(
        NAME,
        f"the same prompt missed at first and hit in {num_hits} of {_REPEATS} further tries: several servers stand "
        "behind this address, each with a cache of its own",
        "route by prefix or by session, so that requests that share a beginning come to the same server",
    )


async def _isolated(visit: Visit, num_units: int, again: Sample) -> Check | None:
    """Two requests with one explicit salt."""
    request = visit.prompt("salted", num_units, salt=salt_of("doctor", visit.words))
    try:
        await visit.sample(request)
        cached = (await visit.sample(request)).num_cached_tokens or 0
    except TargetError:
        return None  # the field is refused: then salts are not the cause either
    if not cached:
        return None
    return fault(
        NAME,
        f"with one cache_salt a repeated prompt hit ({cached} tokens), without it it missed: each request has a salt "
        "of its own",
        "send the same cache_salt with requests that may share, or have the gateway that adds salts add one a tenant",
    )


async def _below_a_block(visit: Visit, num_units: int, again: Sample) -> Check | None:
    """Longer prompts: some models cache only in units of thousands of tokens."""
    for factor in (4, 16):
        longer = _fitting(visit, factor * num_units)
        if longer <= num_units:
            return None
        _, repeated = await _twice(visit, f"longer {factor}", longer)
        if repeated.num_cached_tokens:
            return fault(
                NAME,
                f"a repeated prompt of {again.num_prompt_tokens} tokens missed and one of {repeated.num_prompt_tokens} "
                f"hit ({repeated.num_cached_tokens} tokens): shorter beginnings than one cache block are not shared",
                "make the shared beginning longer than that block, or start the server with a smaller block size",
            )
    return None


async def _evicted(visit: Visit, num_units: int, again: Sample) -> Check | None:
    """Shorter prompts: a small cache keeps those, and loses longer ones before they are asked for again."""
    for divisor in (4, 12):
        _, repeated = await _twice(visit, f"shorter {divisor}", num_units // divisor)
        if repeated.num_cached_tokens:
            return fault(
                NAME,
                f"a repeated prompt of {repeated.num_prompt_tokens} tokens hit and one of {again.num_prompt_tokens} "
                "missed: it was evicted before it came again",
                "give the KV cache more memory (vLLM: --gpu-memory-utilization), or send less at once",
            )
    return None


async def _twice(visit: Visit, name: str, num_units: int) -> tuple[Sample, Sample]:
    request = visit.prompt(name, num_units)
    return await visit.sample(request), await visit.sample(request)


def _fitting(visit: Visit, num_units: int) -> int:
    """So many words, or as many as surely fit the model's context."""
    limit = visit.target.max_model_len
    return num_units if limit is None else min(num_units, limit // _ROUGH_TOKENS_PER_UNIT)
