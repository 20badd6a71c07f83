"""What the requests of a load ask: bodies by number, the same in every process and every arm that gets the same values.

A workload is plain data, sent to the sending processes; each body is made there, before its request is due.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

from anaphora.lab.arms import Mechanism
from anaphora.lab.load.block_texts import BlockTexts
from anaphora.lab.salts import salt_of
from anaphora.lab.targets.system_role import without_system
from anaphora.lab.workloads.prompts import PromptFactory
from anaphora.lab.workloads.texts import texts_of

CHAT_PATH, COMPLETIONS_PATH = "/chat/completions", "/completions"
NONCE_TOKENS = 16
"""Words in front of a bare prompt that make it miss: as many as a usual block, so that what follows keeps its place in
blocks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asking:
    """What all requests of a stage have in common. ``seed`` names the texts: stages of two arms with one seed ask the
    same. ``must_miss``: the off arm, whose requests miss by the run's ``mechanism``."""

    model: str
    seed: str
    mechanism: Mechanism
    must_miss: bool
    ignores_eos: bool
    extra: Mapping[str, bool] = field(default_factory=dict)
    """Further fields that requests to this kind of server have."""
    takes_system: bool = True
    """Whether the model has system messages."""

    @property
    def has_nonce(self) -> bool:
        """Whether words stand in front of every prompt, in both arms, which in one of them differ."""
        return self.mechanism is Mechanism.NONCE

    def body(self, number: int, max_tokens: int, prompt: Mapping[str, Any]) -> bytes:
        """The request's JSON."""
        if "messages" in prompt and not self.takes_system:
            prompt = {**prompt, "messages": without_system(prompt["messages"])}
        fields = {
            "model": self.model,
            **prompt,
            "max_tokens": max_tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"ignore_eos": True} if self.ignores_eos else {}),
            **self.extra,
            **({"cache_salt": salt_of(self._own("salt", number))} if self.mechanism is Mechanism.SALT else {}),
        }
        return json.dumps(fields, ensure_ascii=False).encode()

    def edition(self, name: str, number: int) -> str:
        """Words that requests have in common, or that each has for itself where it must miss by them."""
        return _edition(self._own(name, number) if self.has_nonce else f"{self.seed}/{name}")

    def nonce_seed(self, number: int) -> str:
        """The same for prompts that are no text."""
        return self._own("nonce", number)

    def _own(self, name: str, number: int) -> str:
        return f"{self.seed}/{name}/off/{number}" if self.must_miss else f"{self.seed}/{name}"


class Workload(Protocol):
    """Requests by number."""

    @property
    def path(self) -> str:
        """Below the API's base."""
        ...

    def max_tokens(self, number: int) -> int: ...

    def body(self, number: int) -> bytes: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatWorkload:
    """Chats behind shared system prompts: rules of ``num_prefix_units`` units, then ``num_unique_words`` words that
    no other request has, and a question. ``num_prefixes`` system prompts are asked in turn; 0: each request has its
    own."""

    asking: Asking
    lang: str
    num_prefixes: int
    num_prefix_units: int
    num_unique_words: int
    words: Sequence[str]
    output_tokens: int

    @property
    def path(self) -> str:
        return CHAT_PATH

    def max_tokens(self, number: int) -> int:
        return self.output_tokens

    def body(self, number: int) -> bytes:
        texts = texts_of(self.lang)
        group = number if self.num_prefixes == 0 else number % self.num_prefixes
        system = texts.system_prompt(self.asking.edition(f"prefix/{group}", number), self.num_prefix_units)
        chosen = random.Random(f"{self.asking.seed}/unique/{number}").choices(self.words, k=self.num_unique_words)
        messages = [
            {"role": "system", "content": system},
            {"role": "user", "content": f"{''.join(chosen).strip()} {texts.question}".strip()},
        ]
        return self.asking.body(number, self.output_tokens, {"messages": messages})


@dataclass(frozen=True, slots=True)
class BlockPrompt:
    """A prompt of a hashed trace: its blocks, its length in tokens, and the output asked."""

    block_ids: Sequence[int]
    num_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockWorkload:
    """Prompts of a trace of which only block ids are known: every id has a text of its own, ``block_size`` tokens
    long. ``word_ids``: token ids of the words, for a target that takes them in place of text."""

    asking: Asking
    prompts: Sequence[BlockPrompt]
    block_size: int
    words: Sequence[str]
    word_ids: Sequence[int] | None

    @property
    def path(self) -> str:
        return COMPLETIONS_PATH

    def max_tokens(self, number: int) -> int:
        return self.prompts[number].output_tokens

    def body(self, number: int) -> bytes:
        prompt = self.prompts[number]
        texts = _block_texts(self.asking.seed, len(self.words), self.block_size)
        places = texts.prompt(prompt.block_ids, prompt.num_tokens)
        if self.asking.has_nonce:
            places = texts.nonce(self.asking.nonce_seed(number), NONCE_TOKENS) + places
        asked: Any = (
            "".join(self.words[place] for place in places)
            if self.word_ids is None
            else [self.word_ids[place] for place in places]
        )
        return self.asking.body(number, prompt.output_tokens, {"prompt": asked})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerbatimWorkload:
    """Prompts as a trace has them, all of one kind: the fields ``messages`` (and ``tools``) or ``prompt`` by number,
    begun again when all are used. Prompts of token ids take no nonce."""

    asking: Asking
    is_chat: bool
    prompts: Sequence[Mapping[str, Any]]
    output_tokens: Sequence[int]

    @property
    def path(self) -> str:
        return CHAT_PATH if self.is_chat else COMPLETIONS_PATH

    def max_tokens(self, number: int) -> int:
        return self.output_tokens[number % len(self.prompts)]

    def body(self, number: int) -> bytes:
        place = number % len(self.prompts)
        return self.asking.body(number, self.output_tokens[place], self._fresh(self.prompts[place], number))

    def _fresh(self, prompt: Mapping[str, Any], number: int) -> Mapping[str, Any]:
        if not self.asking.has_nonce:
            return prompt
        words = self.asking.edition("nonce", number)
        if "messages" in prompt:
            return {**prompt, "messages": [{"role": "system", "content": words}, *prompt["messages"]]}
        return {**prompt, "prompt": f"{words}\n{prompt['prompt']}"}


def _edition(name: str) -> str:
    return PromptFactory("", Mechanism.NONCE, texts_of("en")).edition(name)


AnyWorkload = ChatWorkload | BlockWorkload | VerbatimWorkload


@cache
def _block_texts(seed: str, num_words: int, block_size: int) -> BlockTexts:
    return BlockTexts(seed, num_words, block_size)
