"""Fields of OpenAI's or vLLM's requests that would change the answer and that this server does not serve.

An answer without a field's effect would be a wrong answer, so they are refused by name; values that ask for nothing
special are let through. Every other unknown field is ignored: clients send many.
"""

from collections.abc import Mapping
from typing import Any

from anaphora.errors import RequestError

_HARMLESS_IN_BOTH: Mapping[str, tuple[object, ...]] = {
    "allowed_token_ids": (),
    "bad_words": ([],),
    "guided_choice": (),
    "guided_grammar": (),
    "guided_json": (),
    "guided_regex": (),
    "length_penalty": (1.0,),
    "logits_processors": ([],),
    "prompt_embeds": (),
    "prompt_logprobs": (),
    "response_format": ({"type": "text"},),
    "return_tokens_as_token_ids": (False,),
    "spaces_between_special_tokens": (True,),
    "structured_outputs": (),
    "truncate_prompt_tokens": (),
    "use_beam_search": (False,),
}
HARMLESS_IN_CHAT: Mapping[str, tuple[object, ...]] = {
    **_HARMLESS_IN_BOTH,
    "add_generation_prompt": (True,),
    "add_special_tokens": (False,),
    "audio": (),
    "chat_template": (),
    "continue_final_message": (False,),
    "documents": ([],),
    "echo": (False,),
    "function_call": ("none", "auto"),
    "functions": ([],),
    "modalities": (["text"],),
    "tool_choice": ("none", "auto"),
    "web_search_options": (),
}
HARMLESS_IN_COMPLETIONS: Mapping[str, tuple[object, ...]] = {**_HARMLESS_IN_BOTH, "suffix": ("",)}

_WHY = {
    "chat_template": "a request may not bring its own template, only the checkpoint's is rendered",
    "response_format": "only plain text is produced, so response_format must be absent or of type text",
    "tool_choice": "a call cannot be forced, so tool_choice must be none or auto",
}


def refuse_unserved(given: Mapping[str, Any], harmless: Mapping[str, tuple[object, ...]]) -> None:
    """Check the fields of a request that its schema does not name.

    Raises:
        RequestError: one of them would change the answer in a way that is not served.
    """
    for name, value in given.items():
        if name in harmless and value is not None and value not in harmless[name]:
            reason = _WHY.get(name, f"{name} is not served here: leave it out")
            raise RequestError(reason, param=name, code="unsupported_parameter")
