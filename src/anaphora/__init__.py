"""Anaphora: never compute the same beginning twice, and know why whenever you do."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anaphora.engine.llm import LLM as LLM
    from anaphora.engine.sampling_params import SamplingParams as SamplingParams

    __version__: str

__all__ = ["LLM", "SamplingParams", "__version__"]


def __getattr__(name: str) -> Any:
    """Load the engine only when it is asked for: the base install has no torch, and ``--help`` must be instant.

    The version is asked of what was installed, by modules that take as long to load as a command may take to run.
    """
    if name == "__version__":
        from importlib.metadata import version

        return version("anaphora")
    try:
        if name == "LLM":
            from anaphora.engine.llm import LLM

            return LLM
        if name == "SamplingParams":
            from anaphora.engine.sampling_params import SamplingParams

            return SamplingParams
    except ModuleNotFoundError as error:
        if (error.name or "anaphora").startswith("anaphora"):
            raise
        raise ImportError(f"{name} needs {error.name}: pip install 'anaphora[engine]'") from error
    raise AttributeError(f"module 'anaphora' has no attribute {name!r}")
