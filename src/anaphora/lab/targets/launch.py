"""Command lines of servers that the lab starts itself: ours, a preset, or any with its own words."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from anaphora.errors import ConfigError

PORT, PREFIX_FLAG = "{port}", "{prefix_flag}"
_HERE = f"--host 127.0.0.1 --port {PORT}"
_OURS = (sys.executable, "-m", "anaphora", "serve")
_PRESETS = {
    "ours": f"{shlex.join(_OURS)} {{model}} {_HERE} {PREFIX_FLAG}",
    "vllm": f"vllm serve {{model}} {_HERE} --enable-prompt-tokens-details {PREFIX_FLAG}",
    "sglang": "python3 -m sglang.launch_server --model-path {model} "
    f"{_HERE} --enable-metrics --enable-cache-report {PREFIX_FLAG}",
    "llama.cpp": f"llama-server -m {{model}} {_HERE} --metrics {PREFIX_FLAG}",
}
_SWITCHES = {
    "anaphora": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
    "vllm": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
    "sglang": ("", "--disable-radix-cache"),
    "llama": ("--cache-prompt", "--no-cache-prompt"),
}
"""By a word of the command: what stands for ``{prefix_flag}`` with the prefix cache on, and off."""


@dataclass(frozen=True, slots=True)
class LaunchCommand:
    """A server's command line. ``words`` may hold ``{port}``, once, and ``{prefix_flag}``."""

    words: tuple[str, ...]

    @classmethod
    def parse(cls, text: str) -> "LaunchCommand":
        """From ``vllm:MODEL`` (presets: ours, vllm, sglang, llama.cpp) or from a command line with ``{port}`` in it.

        Raises :class:`ConfigError` for what is neither, and for ``{prefix_flag}`` of a server whose flag is not known.
        """
        preset, colon, model = text.partition(":")
        if colon and preset in _PRESETS and model:
            text = _PRESETS[preset].replace("{model}", shlex.quote(model))
        try:
            command = cls(tuple(shlex.split(text)))
        except ValueError as error:
            raise ConfigError(f"--launch {text!r} is no command line: {error}") from error
        if sum(PORT in word for word in command.words) != 1:
            raise ConfigError(
                f"--launch takes a command line with {PORT} in it, once, or one of "
                f"{', '.join(f'{name}:MODEL' for name in _PRESETS)}; got {text!r}"
            )
        if command.has_switch and command._switch() is None:
            known = ", ".join(_SWITCHES)
            raise ConfigError(f"what {PREFIX_FLAG} stands for is known for {known} only: write the flag itself")
        return command

    @property
    def has_switch(self) -> bool:
        """Whether its prefix cache can be switched."""
        return PREFIX_FLAG in self.words

    def of(self, port: int, *, prefix_caching: bool, extra: Sequence[str] = ()) -> list[str]:
        """The command line of one server."""
        on, off = self._switch() or ("", "")
        values = {PREFIX_FLAG: on if prefix_caching else off}
        words = [values.get(word, word.replace(PORT, str(port))) for word in self.words]
        return [*(word for word in words if word), *extra]

    def _switch(self) -> tuple[str, str] | None:
        spoken = " ".join(self.words)
        return next((flags for name, flags in _SWITCHES.items() if name in spoken), None)


def ours(model: str | None) -> LaunchCommand:
    """Our own server, run by this very interpreter; ``None``: with its default model."""
    return LaunchCommand((*_OURS, *([model] if model else ()), *shlex.split(_HERE), PREFIX_FLAG))
