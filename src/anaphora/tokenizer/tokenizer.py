"""Text ↔ ids of one model, from the ``tokenizer.json`` and ``tokenizer_config.json`` of its folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import tokenizers

from anaphora.checkpoints import read_eos_token_ids
from anaphora.errors import ChatTemplateError, CheckpointError
from anaphora.tokenizer.borders import find_borders
from anaphora.tokenizer.chat_template import ChatTemplate
from anaphora.tokenizer.encoder import Encode, load_encoder, probe_texts
from anaphora.tokenizer.remembering import MAX_BYTES, RememberingEncoder
from anaphora.tokenizer.special_tokens import read_special_tokens
from anaphora.tokenizer.text_memory import TextMemory
from anaphora.tokenizer.token_bytes import byte_level_bytes
from anaphora.types import Namespace

if TYPE_CHECKING:
    from array import array


class Tokenizer:
    """Encodes, decodes and renders chats. Everything here may be called from several threads at once."""

    def __init__(
        self,
        tokenizer: tokenizers.Tokenizer,
        encode: Encode,
        *,
        special_tokens: Mapping[str, str],
        eos_token_ids: Sequence[int],
        chat_template: ChatTemplate | None,
    ) -> None:
        self._tokenizer = tokenizer
        self._encode = encode
        self._chat_template = chat_template
        borders = () if chat_template is None else find_borders(tokenizer, chat_template.source)
        remembering = RememberingEncoder(encode, borders, TextMemory(MAX_BYTES))
        self._remembering = remembering.checked(probe_texts(tokenizer)) if borders else remembering
        added = tokenizer.get_added_tokens_decoder()
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        self.vocab_size: int = max(vocabulary.values(), default=-1) + 1
        """One more than the highest id that has a token; ids in between may be unused."""
        self.special_token_ids: frozenset[int] = frozenset(i for i, token in added.items() if token.special)
        self.bos_token_id: int | None = vocabulary.get(special_tokens.get("bos_token", ""))
        eos = vocabulary.get(special_tokens.get("eos_token", ""))
        self.eos_token_ids: tuple[int, ...] = tuple(dict.fromkeys((*([] if eos is None else [eos]), *eos_token_ids)))
        """Every id that ends a generation, as the tokenizer, the model and its generation settings say."""
        self.is_byte_level: bool = isinstance(tokenizer.decoder, tokenizers.decoders.ByteLevel)
        self._texts: list[str | None] = [None] * self.vocab_size
        for text, token_id in vocabulary.items():
            self._texts[token_id] = text

    @classmethod
    def from_folder(cls, path: Path) -> Self:
        """The tokenizer of the model in ``path``.

        Raises:
            CheckpointError: a file is missing or damaged.
        """
        file = path / "tokenizer.json"
        if not file.is_file():
            raise CheckpointError(f"{file} is missing: a model folder needs it")
        try:
            tokenizer = tokenizers.Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises bare exceptions only
            raise CheckpointError(f"{file} is damaged or not supported: {error}") from error
        tokenizer.no_truncation()
        tokenizer.no_padding()
        special_tokens = read_special_tokens(path)
        return cls(
            tokenizer,
            load_encoder(tokenizer, file),
            special_tokens=special_tokens,
            eos_token_ids=read_eos_token_ids(path),
            chat_template=ChatTemplate.from_folder(path, special_tokens),
        )

    def encode(self, text: str, *, add_special_tokens: bool = True) -> list[int]:
        """Ids of ``text``. Special tokens written out in it are recognised; ``add_special_tokens`` adds those that the
        tokenizer puts around every text (a beginning-of-sequence token, say)."""
        return self._encode(text, add_special_tokens)

    def encode_rendered(self, text: str, owner: Namespace) -> "array[int]":
        """Ids of a chat that :meth:`apply_chat_template` has written: those of ``encode(text, add_special_tokens=
        False)``, but long messages that ``owner`` sent before are remembered."""
        return self._remembering.encode(text, owner)

    @property
    def num_remembered_bytes(self) -> int:
        """Bytes of the texts and ids that :meth:`encode_rendered` remembers."""
        return self._remembering.memory.num_bytes

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """Text of ``ids``; unknown ids stand for nothing, bytes that are no UTF-8 for U+FFFD."""
        return self._tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)

    @property
    def has_chat_template(self) -> bool:
        """Whether the checkpoint says how to write a chat as text."""
        return self._chat_template is not None

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_kwargs: Any,
    ) -> str:
        """The chat as one text, by the checkpoint's template.

        Raises:
            ChatTemplateError: there is no template, it refused the messages, or it broke a limit.
        """
        if self._chat_template is None:
            raise ChatTemplateError("this model has no chat template: use text completions", param="messages")
        return self._chat_template.render(
            messages, tools=tools, add_generation_prompt=add_generation_prompt, extra=template_kwargs
        )

    def encode_chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        /,
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        **template_kwargs: Any,
    ) -> list[int]:
        """Ids of the rendered chat. The template writes all special tokens itself, so none are added.

        For whoever is alone here: all messages are remembered as one owner's.
        """
        text = self.apply_chat_template(
            messages, tools=tools, add_generation_prompt=add_generation_prompt, **template_kwargs
        )
        return self.encode_rendered(text, Namespace("")).tolist()

    def token_text(self, token_id: int) -> str:
        """The text of one token alone; half a character shows as U+FFFD."""
        return self.decode([token_id], skip_special_tokens=False)

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token, or ``None`` where the vocabulary is not one of bytes. Unknown ids have none."""
        if not self.is_byte_level:
            return None
        text = self._texts[token_id] if 0 <= token_id < self.vocab_size else None
        return b"" if text is None else byte_level_bytes(text)
