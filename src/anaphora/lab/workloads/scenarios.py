"""The ways in which prompts share their beginnings, with real texts (see ``data/README.md``), chosen by a seed.

An assistant with a fixed system prompt, questions about shared documents, code completion that moves down one file, a
conversation that grows, agents with tools, and independent prompts, which share nothing.
"""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from anaphora.lab.targets.base import Message, Tool
from anaphora.lab.workloads.chats import Chat
from anaphora.lab.workloads.texts import Texts

_CHARACTERS_PER_TOKEN = 4
_CODE = ("anaphora.kvcache", "manager.py")
_NUM_DOCUMENTS = 2


@cache
def _data() -> Mapping[str, Any]:
    text = files("anaphora.lab.workloads").joinpath("data/scenarios.json").read_text("utf-8")
    return dict[str, Any](json.loads(text))


@dataclass(frozen=True, slots=True)
class ScenarioMaker:
    """``num_requests`` chats of each kind, whose shared part has about ``context_tokens`` of English."""

    rng: random.Random
    texts: Texts
    num_requests: int
    context_tokens: int
    output_tokens: int

    def chats(self, name: str) -> list[Chat]:
        """The chats of one of :data:`SCENARIOS`, in the order of sending."""
        return SCENARIOS[name](self)

    def assistant(self) -> list[Chat]:
        """Different questions behind one system prompt."""
        system = self.texts.system_prompt("assistant", round(0.75 * self.context_tokens))
        return [self._chat("assistant", system, question) for question in self._questions()]

    def documents(self) -> list[Chat]:
        """Questions about one of two documents, which stands before the question."""
        chapters = self.rng.sample(_data()["document"], _NUM_DOCUMENTS)
        asked = [
            "Who is named in this text?",
            "What happens first, and what last?",
            "Which numbers are given, and of what?",
            "What is said of water?",
            "Retell it in two sentences.",
            "Which animals or plants occur?",
        ]
        return [
            self._chat(
                "documents",
                "Answer from the document alone.\n\n" + self._cut(chapters[number % _NUM_DOCUMENTS]),
                asked[number // _NUM_DOCUMENTS % len(asked)],
            )
            for number in range(self.num_requests)
        ]

    def code(self) -> list[Chat]:
        """The next line of one file, again and again, ever further down."""
        package, name = _CODE
        lines = files(package).joinpath(name).read_text("utf-8").splitlines(keepends=True)
        text, sizes = "".join(lines), []
        for step in range(self.num_requests):
            share = 0.6 + 0.4 * step / max(1, self.num_requests - 1)
            sizes.append(round(share * self.context_tokens * _CHARACTERS_PER_TOKEN))
        system = "You complete code. Answer with the next line alone."
        return [self._chat("code", system, text[: text.rfind("\n", 0, size) + 1]) for size in sizes]

    def conversation(self) -> list[Chat]:
        """One dialogue that grows: every request repeats all that was said before."""
        said: list[Message] = [
            {"role": message["role"], "content": self._cut(message["content"], 0.5)} for message in _data()["dialogue"]
        ]
        ends = [number + 1 for number, message in enumerate(said) if message["role"] == "user"][: self.num_requests]
        return [Chat("conversation", tuple(said[:end]), self.output_tokens) for end in ends]

    def agents(self) -> list[Chat]:
        """Different users of one set of tools."""
        tools: list[Tool] = []
        size = 0
        for tool in _data()["tools"]:
            size += len(json.dumps(tool))
            if tools and size > self.context_tokens * _CHARACTERS_PER_TOKEN:
                break
            tools.append(tool)
        system = "You act for the user by calling tools. Call the tools that are needed, one after another."
        users = self.rng.sample(_data()["users"], len(_data()["users"]))
        return [
            Chat("agents", _messages(system, users[i % len(users)]), self.output_tokens, tuple(tools))
            for i in range(self.num_requests)
        ]

    def independent(self) -> list[Chat]:
        """Prompts that begin differently from the first word on."""
        chapters = _data()["document"]
        return [
            Chat(
                "independent",
                ({"role": "user", "content": f"{self._passage(chapters)}\n\n{question}"},),
                self.output_tokens,
            )
            for question in self._questions()
        ]

    def _questions(self) -> list[str]:
        known = _data()["questions"]
        chosen = self.rng.sample(known, min(self.num_requests, len(known)))
        return [chosen[i % len(chosen)] for i in range(self.num_requests)]

    def _passage(self, chapters: list[str]) -> str:
        """A random passage, from a word on."""
        words = self.rng.choice(chapters).split()
        length = min(len(words), round(0.75 * self.context_tokens))
        start = self.rng.randrange(len(words) - length + 1)
        rest = words[start : start + length]
        self.rng.shuffle(rest)
        return " ".join(rest)

    def _cut(self, text: str, share: float = 1.0) -> str:
        return text[: round(share * self.context_tokens * _CHARACTERS_PER_TOKEN)]

    def _chat(self, group: str, system: str, question: str) -> Chat:
        return Chat(group, _messages(system, question), self.output_tokens)


def _messages(system: str, user: str) -> tuple[Message, ...]:
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


SCENARIOS: Mapping[str, Callable[[ScenarioMaker], list[Chat]]] = {
    "assistant": ScenarioMaker.assistant,
    "documents": ScenarioMaker.documents,
    "code": ScenarioMaker.code,
    "conversation": ScenarioMaker.conversation,
    "agents": ScenarioMaker.agents,
    "independent": ScenarioMaker.independent,
}
