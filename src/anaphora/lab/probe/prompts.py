"""Prompts of so many words that share exactly so many first words with another prompt, or none.

The words are among the commonest of English: each is one token, with the space before it, in every vocabulary that
merges bytes by frequency. So a word more is a token more, and a shared word a shared token.
"""

import random
from dataclasses import dataclass

from anaphora.lab.targets.base import ChatRequest, Message

_QUESTION = "Reply with one word."
_COMMON_WORDS = """
the of and to in that was he is for it with as his on be at by had not are but from or have an they which one you were
her all she there would their we him been has when who will more no if out so said what up its about into than them
can only other new some could time these two may then do first any my now such like our over man me even most made
after also did many before must through back years where much your way well down should because each just those people
how too little state good very make world still own see men work long get here between both life being under never day
same another know while last might us great old year off come since against go came right used take three
"""
WORDS = tuple(dict.fromkeys(_COMMON_WORDS.split()))


@dataclass(frozen=True, slots=True)
class WordPrompt:
    """``words`` are the system message; a short question follows, the same in every prompt."""

    name: str
    words: tuple[str, ...]
    num_shared: int | None = None
    """How many of its first words it shares with an earlier one; ``None`` if that is not the point."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """As a chat."""
        return ({"role": "system", "content": " ".join(self.words)}, {"role": "user", "content": _QUESTION})

    def request(self, *, salt: str | None = None) -> ChatRequest:
        """Asks for one token: what is measured is over before it."""
        return ChatRequest(messages=self.messages, max_tokens=1, cache_salt=salt)


@dataclass(frozen=True, slots=True)
class WordPrompts:
    """Makes prompts. Everything random in them follows from ``run_id`` and their name."""

    run_id: str

    def fresh(self, name: str, num_words: int) -> WordPrompt:
        """A prompt whose beginning no other name's prompt has: the first four words alone make 10⁹ beginnings."""
        return WordPrompt(name, self._words(name, num_words))

    def parting(self, base: WordPrompt, name: str, num_shared: int) -> WordPrompt:
        """A prompt as long as ``base`` that shares its first ``num_shared`` words, and not the next one."""
        rest = list(self._words(name, len(base.words) - num_shared))
        if rest and rest[0] == base.words[num_shared]:
            rest[0] = WORDS[WORDS.index(rest[0]) - 1]
        return WordPrompt(name, (*base.words[:num_shared], *rest), num_shared)

    def _words(self, name: str, num_words: int) -> tuple[str, ...]:
        return tuple(random.Random(f"{self.run_id}/{name}").choices(WORDS, k=num_words))
