"""Options that say which server is meant, the same at every verb that takes one."""

from typing import Any

import typer


def kind_option(panel: str | None = None) -> Any:
    """``--kind``, below a heading of the help if there is one."""
    return typer.Option(
        metavar="NAME",
        help="What kind of server it is, if it does not tell: anaphora, vllm, sglang, llama.cpp, lmcache, "
        "tensorrt-llm, openai, anthropic, deepseek, gemini or generic.",
        rich_help_panel=panel,
    )
