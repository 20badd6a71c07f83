"""Text ↔ ids: encoding, chat templates, and decoding while a generation runs. No torch."""

from anaphora.tokenizer.chat_template import why_no_chats
from anaphora.tokenizer.detokenizer import IncrementalDetokenizer
from anaphora.tokenizer.tokenizer import Tokenizer

__all__ = ["IncrementalDetokenizer", "Tokenizer", "why_no_chats"]
