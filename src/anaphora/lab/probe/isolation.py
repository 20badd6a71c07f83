"""Do requests with another salt, or another key, share cached prompts?"""

from anaphora.lab.probe.asking import Asked, Asker
from anaphora.lab.probe.finding import Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis
from anaphora.lab.salts import salt_of
from anaphora.lab.targets.base import Target

SALTS, KEYS = "salts", "keys"
SALT_QUESTION = "Does cache_salt keep prompts apart?"
KEY_QUESTION = "Do two keys share cached prompts?"


async def probe_salts(asker: Asker, prompts: WordPrompts, basis: Basis) -> Finding:
    """One prompt with a salt twice, then with another."""
    prompt = prompts.fresh("salts", basis.num_words)
    first, *others = [salt_of(prompts.run_id, name) for name in "aab"]
    asked = await asker.try_ask(prompt, salt=first)
    if asked.error is not None:
        return _found(SALTS, SALT_QUESTION, "refused", f"a request with cache_salt: {asked.error}")
    hit, crossed = _hits(basis, [await asker.ask(prompt, salt=salt) for salt in others])
    if hit is None or crossed is None:
        return unknown(SALTS, SALT_QUESTION, "the server does not tell hits, nor does its time")
    if not hit:
        return unknown(SALTS, SALT_QUESTION, "a prompt that was repeated with the same salt did not hit")
    if crossed:
        return _found(SALTS, SALT_QUESTION, "no", "a prompt that was sent with one salt hit under another", basis)
    return _found(SALTS, SALT_QUESTION, "yes", "a prompt that hit under its salt missed under another", basis)


async def probe_keys(asker: Asker, prompts: WordPrompts, basis: Basis, other: Target | None) -> Finding:
    """A prompt sent with one key, asked again with the other and, to compare, with its own. ``other``: the same server
    with the second key."""
    if other is None:
        return unknown(KEYS, KEY_QUESTION, "not asked: name a second key with --other-api-key-env")
    prompt = prompts.fresh("keys", basis.num_words)
    await asker.ask(prompt)
    crossed, hit = _hits(basis, [await asker.ask(prompt, target=other), await asker.ask(prompt)])
    if crossed is None or hit is None:
        return unknown(KEYS, KEY_QUESTION, "the server does not tell hits, nor does its time")
    if crossed:
        return _found(KEYS, KEY_QUESTION, "yes", "a prompt that was sent with one key hit with the other", basis)
    if not hit:
        return unknown(KEYS, KEY_QUESTION, "a prompt did not hit with its own key either")
    return _found(KEYS, KEY_QUESTION, "no", "a prompt that hit with its own key missed with the other", basis)


def _hits(basis: Basis, asked: list[Asked]) -> list[bool | None]:
    return [None if basis.judge is None else basis.judge.is_hit(one) for one in asked]


def _found(name: str, question: str, value: str, seen: str, basis: Basis | None = None) -> Finding:
    judge = None if basis is None else basis.judge
    if judge is None or basis is None or basis.is_told:
        return Finding(name=name, question=question, value=value, confidence=Confidence.COUNTED, evidence=seen)
    return Finding(
        name=name,
        question=question,
        value=value,
        confidence=Confidence.LIKELY,
        error_chance=2 * judge.error_chance,
        evidence=f"{seen}, by their times",
    )
