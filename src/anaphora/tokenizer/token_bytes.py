"""What bytes a token of a byte-level vocabulary stands for.

Byte-level BPE (GPT-2's, which Llama 3, Qwen and SmolLM use too) writes each byte as one printable character: bytes that
are printable in Latin-1 stand for themselves, the others are moved, in order, to the characters from U+0100 on.
"""


def _byte_of_character() -> dict[str, int]:
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(moved)}


BYTE_OF_CHARACTER = _byte_of_character()


def byte_level_bytes(token: str) -> bytes:
    """The bytes that ``token`` decodes to. A token with a character outside the byte alphabet (an added token with a
    space, say) stands for its own text."""
    try:
        return bytes([BYTE_OF_CHARACTER[character] for character in token])
    except KeyError:
        return token.encode()
