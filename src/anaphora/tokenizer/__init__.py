"""Text ↔ ids: encoding, chat templates, and decoding while a generation runs. No torch."""

from anaphora.tokenizer.detokenizer import IncrementalDetokenizer
from anaphora.tokenizer.tokenizer import Tokenizer

__all__ = ["IncrementalDetokenizer", "Tokenizer"]
