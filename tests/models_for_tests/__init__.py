"""Tiny models for tests: whole model folders with seeded random weights, made in milliseconds."""

from tests.models_for_tests.qwen_tokenizer import write_qwen_tokenizer
from tests.models_for_tests.tiny_checkpoint import ARCHITECTURES, tiny_checkpoint, tiny_config
from tests.models_for_tests.tiny_gguf import write_tiny_gguf
from tests.models_for_tests.tiny_tokenizer import write_tiny_tokenizer

__all__ = [
    "ARCHITECTURES",
    "tiny_checkpoint",
    "tiny_config",
    "write_qwen_tokenizer",
    "write_tiny_gguf",
    "write_tiny_tokenizer",
]
