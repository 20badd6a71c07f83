"""Prompts of a known size in tokens: seeded words that tokenise to one token each, calibrated on a running server."""

import random
from dataclasses import dataclass

# Frequent English words: each is one token in the vocabulary of every tokenizer that we met, with a space before it.
_FREQUENT = (
    "about after again air also always animal answer around ask away back because before begin below better between "
    "big bird black blue boat body book both box boy bring building call came car carry change children city clear "
    "close cold color come common country course cut day deep different door down draw dry early earth east easy "
    "eat end enough even every example eye face fall family far farm fast father feel few field figure final fire "
    "first fish five floor follow food foot force form found four free friend front full game gave girl give gold "
    "good great green ground group grow half hand hard head hear heart heavy help high hold home horse hot hour "
    "house idea inside"
)
WORDS = tuple(_FREQUENT.split())

QUESTIONS = (
    "What is the main point here?",
    "Which word comes first?",
    "Who could have written this?",
    "Is there a number in it?",
    "How would you begin a reply?",
    "Name one animal from the list.",
    "Does it speak of a house?",
    "Where might this be read?",
    "When was it made, roughly?",
    "Can it be said in fewer words?",
    "Why is it so long?",
    "Tell me about the second line.",
    "Should anything be left out?",
    "Give it a short title.",
    "Are the words all common?",
    "Translate the last word.",
)

NEW_TOKENS = 20
"""Tokens of a prompt behind its shared part, with the question: what a hit has to compute, give or take a few."""


@dataclass(frozen=True, slots=True)
class PromptSizer:
    """How many words make a prompt of so many tokens: ``prompt_tokens = overhead + tokens_per_word * words``."""

    overhead: float
    tokens_per_word: float

    def num_words(self, shared_tokens: int) -> int:
        """Words of a system prompt such that prompt and question have ``shared_tokens + NEW_TOKENS`` tokens."""
        return max(1, round((shared_tokens + NEW_TOKENS - self.overhead) / self.tokens_per_word))

    @classmethod
    def from_probes(cls, few: tuple[int, int], many: tuple[int, int]) -> "PromptSizer":
        """From two probes of (words, prompt tokens)."""
        tokens_per_word = (many[1] - few[1]) / (many[0] - few[0])
        return cls(few[1] - tokens_per_word * few[0], tokens_per_word)


def system_prompt(seed: str, num_words: int) -> str:
    """Text of ``num_words`` words. Texts of different seeds part within the first block of tokens."""
    chosen = random.Random(seed)
    return " ".join(chosen.choice(WORDS) for _ in range(num_words))
