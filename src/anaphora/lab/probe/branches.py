"""Are several continuations of one beginning held at once, or does a new one replace the old?"""

from anaphora.lab.probe.asking import Asker
from anaphora.lab.probe.finding import Confidence, Finding, unknown
from anaphora.lab.probe.prompts import WordPrompts
from anaphora.lab.probe.reuse import Basis

NAME = "branches"
QUESTION = "Does a prompt outlive another that shares its first half?"


async def probe_branches(asker: Asker, prompts: WordPrompts, basis: Basis) -> Finding:
    """A prompt, one that parts from it half-way, and the first again."""
    assert basis.judge is not None
    half = basis.num_words // 2
    base = prompts.fresh("branches", basis.num_words)
    await asker.ask(base)
    parting = await asker.ask(prompts.parting(base, "branches/other", half))
    again = await asker.ask(base)
    cached, shared = again.num_cached_tokens, parting.num_cached_tokens
    if cached is None or shared is None:
        return unknown(NAME, QUESTION, "the server tells no cached tokens")
    seen = f"{cached:,} of {again.num_prompt_tokens or again.num_words:,} tokens of the first prompt hit afterwards"
    if shared <= basis.num_always_cached:
        return unknown(NAME, QUESTION, f"the second prompt did not hit the first one's half; {seen}")
    is_kept = basis.judge.is_hit(again) and cached > shared
    value = "yes" if is_kept else "no, it replaces it"
    return Finding(name=NAME, question=QUESTION, value=value, confidence=Confidence.COUNTED, evidence=seen)
