"""Prompts that are new in every run, equal in both arms where caching is to hit, and different where a miss is
meant."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.lab.arms import Mechanism
from anaphora.lab.salts import salt_of
from anaphora.lab.targets.base import ChatRequest, Message, Tool
from anaphora.lab.workloads.texts import EDITION_WORDS, Texts
from anaphora.traces.records import Arm

_WORDS_OF_AN_EDITION = 5


@dataclass(frozen=True, slots=True)
class PromptFactory:
    """Makes requests. Everything random in them follows from ``run_id``, so a run can be planned again."""

    run_id: str
    mechanism: Mechanism
    texts: Texts

    def edition(self, name: str) -> str:
        """The words in front of a system prompt: another ``name``, or another run, shares no beginning with this
        one."""
        chosen = random.Random(f"{self.run_id}/{name}")
        return " ".join(chosen.choice(EDITION_WORDS) for _ in range(_WORDS_OF_AN_EDITION))

    def own(
        self,
        messages: Sequence[Message],
        *,
        family: str,
        arm: Arm,
        number: int,
        max_tokens: int,
        tools: tuple[Tool, ...] = (),
    ) -> ChatRequest:
        """The request of one trial with texts that come from elsewhere, as they stand. Only where nothing but other
        words can make a request miss do words go in front: the same ones for all on-trials of a ``family``."""
        salt = None
        if self.mechanism is Mechanism.SALT:
            salt = salt_of(self.run_id, "off", family, number) if arm == "off" else salt_of(self.run_id, "on")
        if self.mechanism is Mechanism.NONCE:
            edition = self.edition(f"{family}/off/{number}" if arm == "off" else family)
            messages = with_words_in_front(messages, self.texts.heading.format(edition=edition))
        return ChatRequest(messages=tuple(messages), max_tokens=max_tokens, cache_salt=salt, tools=tools)

    def sample_edition(self, name: str) -> str:
        """An edition as long as others, of no run: its text is counted and never sent."""
        return PromptFactory("", self.mechanism, self.texts).edition(name)

    def request(
        self, *, family: str, arm: Arm, number: int, num_units: int, question: str, max_tokens: int
    ) -> ChatRequest:
        """The request of one trial. ``family``: trials whose on-arm shares a system prompt. ``number``:
        distinguishes its off-trials, each of which must miss: by server flag they are equal to the on-trials, by
        salt they differ in the salt alone, by nonce in the edition."""
        must_miss = arm == "off"
        name = f"{family}/off/{number}" if must_miss and self.mechanism is Mechanism.NONCE else family
        salt = None
        if self.mechanism is Mechanism.SALT:
            salt = salt_of(self.run_id, "off", family, number) if must_miss else salt_of(self.run_id, "on")
        return ChatRequest(
            messages=(
                {"role": "system", "content": self.texts.system_prompt(self.edition(name), num_units)},
                {"role": "user", "content": question},
            ),
            max_tokens=max_tokens,
            cache_salt=salt,
        )


def with_words_in_front(messages: Sequence[Message], words: str) -> list[Message]:
    """The messages with ``words`` before the first one's text; as a system message if that text is not plain."""
    first, *others = messages
    content = first.get("content")
    if isinstance(content, str):
        return [{**first, "content": words + content}, *others]
    return [{"role": "system", "content": words}, *messages]
