"""What a person asks of `anaphora bench`, as one frozen value that refuses what cannot be."""

import shlex
from dataclasses import dataclass, field
from typing import Literal

from anaphora.errors import ConfigError
from anaphora.lab.command_line import named, words_of
from anaphora.lab.dialects import dialect_named
from anaphora.lab.experiments.base import ExperimentSettings
from anaphora.lab.targets.launch import PREFIX_FLAG, LaunchCommand

OURS = "ours"
STARTED_FOR_THE_RUN = "a server started for the run"
"""Stands in a record for the address of a server that is there no more."""
ArmsWish = Literal["auto", "flag", "restart", "salt", "nonce", "reset"]
BY_FLAG: tuple[ArmsWish, ...] = ("flag", "restart")
"""What needs a server that can be started without its prefix cache."""
_LONGEST_WAIT_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """``experiments``: the settings of each, in the order of sending. The rest is shared by all."""

    experiments: tuple[ExperimentSettings, ...] = field(repr=False)
    target: str = OURS
    """``ours``: a server that is started for the run; else a base URL."""
    model: str | None = None
    api_key_env: str | None = None
    """Name of the environment variable that holds the key. The key itself is never stored."""
    kind: str | None = None
    """Which kind of server it is, where it does not tell: a name of :data:`anaphora.lab.dialects.DIALECTS`."""
    arms: ArmsWish = "auto"
    lang: str = "en"
    tokenizer: str | None = None
    """A model folder or name whose tokenizer stands in for a target that does not tokenise for others."""
    seed: int = 0
    wait_s: float = 300.0
    launch: str | None = None
    """Another server that is started for the run: a preset with a model, or a command line; see
    :class:`anaphora.lab.targets.launch.LaunchCommand`."""
    server_options: tuple[str, ...] = field(default=(), metadata=named("server-option"))
    """Further options of the managed server, each as one ``--name=value``."""

    def __post_init__(self) -> None:
        if not 0 <= self.wait_s <= _LONGEST_WAIT_S:
            raise ConfigError("--wait must be between 0 seconds and a day")
        if self.kind is not None:
            dialect_named(self.kind)
        if self.launch is not None and (self.target != OURS or self.model is not None):
            raise ConfigError("--launch says which server and model to start: leave out --target and --model")
        if self.target != OURS and self.arms in BY_FLAG:
            raise ConfigError(
                f"--arms {self.arms} needs a server that is started for the run: use --target ours, --launch, or "
                "another --arms"
            )
        if self.arms in BY_FLAG and self.launch is not None and not LaunchCommand.parse(self.launch).has_switch:
            raise ConfigError(f"--arms {self.arms} needs a place for the flag in --launch: write {PREFIX_FLAG} there")
        if self.target != OURS and self.server_options:
            raise ConfigError("--server-option goes to a server that is started for the run: leave it out with a URL")

    @property
    def what(self) -> str:
        """The sub-command that asks for these experiments."""
        return "all" if len(self.experiments) > 1 else self.experiments[0].name

    def command(self) -> str:
        """The command line that asks the same again."""
        own = [word for settings in self.experiments for word in words_of(settings)]
        return shlex.join(["anaphora", "bench", self.what, *own, *words_of(self)])
