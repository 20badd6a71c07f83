"""What a person asks of `anaphora bench`, as one frozen value that refuses what cannot be."""

import shlex
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from anaphora.errors import ConfigError
from anaphora.lab.targets.launch import PREFIX_FLAG, LaunchCommand

OURS = "ours"
EXPERIMENTS = ("switch", "gradient")
ArmsWish = Literal["auto", "flag", "salt", "nonce"]

_FLAG_NAMES = {"num_questions": "questions", "server_options": "server-option"}
_NOT_SHOWN = ("experiments",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """The defaults are the seed documents' procedures."""

    experiments: tuple[str, ...] = EXPERIMENTS
    target: str = OURS
    """``ours``: a server that is started for the run; else a base URL."""
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. The key itself is never stored."""
    arms: ArmsWish = "auto"
    lengths: tuple[int, ...] = (256, 512, 1024, 2048, 3072)
    """Prefix lengths of the gradient, in tokens."""
    repeats: int = 5
    prefix_tokens: int = 1500
    """Length of the switch's system prompt, in tokens."""
    num_questions: int = 8
    output_tokens: int = 64
    lang: str = "en"
    tokenizer: str | None = None
    """A model folder or name whose tokenizer stands in for a target that does not tokenise for others."""
    seed: int = 0
    wait_s: float = 300.0
    launch: str | None = None
    """Another server that is started for the run: a preset with a model, or a command line; see
    :class:`anaphora.lab.targets.launch.LaunchCommand`."""
    server_options: tuple[str, ...] = field(default=())
    """Further options of the managed server, each as one ``--name=value``."""

    def __post_init__(self) -> None:
        for name, least in (("repeats", 1), ("prefix_tokens", 16), ("num_questions", 2), ("output_tokens", 1)):
            if getattr(self, name) < least:
                raise ConfigError(f"{_flag(name)} must be at least {least}")
        if not self.lengths or min(self.lengths) < 16 or len(set(self.lengths)) < len(self.lengths):
            raise ConfigError("--lengths takes different numbers of at least 16 tokens, like 256,512,1024")
        if self.launch is not None and (self.target != OURS or self.model is not None):
            raise ConfigError("--launch says which server and model to start: leave out --target and --model")
        if self.target != OURS and self.arms == "flag":
            raise ConfigError(
                "--arms flag needs a server that is started for the run: use --target ours, --launch, or another --arms"
            )
        if self.arms == "flag" and self.launch is not None and not LaunchCommand.parse(self.launch).has_switch:
            raise ConfigError(f"--arms flag needs a place for the flag in --launch: write {PREFIX_FLAG} there")
        if self.target != OURS and self.server_options:
            raise ConfigError("--server-option goes to a server that is started for the run: leave it out with a URL")

    @property
    def is_ours(self) -> bool:
        """Whether the server is our own."""
        return self.target == OURS and (self.launch is None or self.launch.startswith(f"{OURS}:"))

    def command(self) -> str:
        """The command line that asks the same again."""
        words = ["anaphora", "bench", "all" if self.experiments == EXPERIMENTS else self.experiments[0]]
        for entry in fields(self):
            value = getattr(self, entry.name)
            if entry.name not in _NOT_SHOWN and value != entry.default:
                words += _as_words(_flag(entry.name), value)
        return shlex.join(words)


def _flag(name: str) -> str:
    return "--" + _FLAG_NAMES.get(name, name).removesuffix("_s").replace("_", "-")


def _as_words(flag: str, value: Any) -> list[str]:
    if isinstance(value, tuple) and value and isinstance(value[0], str):
        return [word for one in value for word in (flag, one)]
    text = (
        ",".join(str(one) for one in value)
        if isinstance(value, tuple)
        else f"{value:g}"
        if isinstance(value, float)
        else value
    )
    return [flag, str(text)]
