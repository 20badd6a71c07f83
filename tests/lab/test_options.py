"""The command line that asks the same again."""

import shlex

import pytest

from anaphora.lab.experiments.gradient import GradientSettings
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions

BOTH = (SwitchSettings(), GradientSettings())


@pytest.mark.parametrize(
    ("options", "command"),
    [
        (BenchOptions(experiments=BOTH), "anaphora bench all"),
        (
            BenchOptions(experiments=(SwitchSettings(num_questions=4),), lang="zh", arms="nonce"),
            "anaphora bench switch --questions 4 --arms nonce --lang zh",
        ),
        (
            BenchOptions(experiments=(GradientSettings(lengths=(64, 128), repeats=7),), wait_s=5.0),
            "anaphora bench gradient --lengths 64,128 --repeats 7 --wait 5",
        ),
        (
            BenchOptions(experiments=BOTH, model="a b", server_options=("--seed=1", "--block-size=32")),
            "anaphora bench all --model 'a b' --server-option --seed=1 --server-option --block-size=32",
        ),
        (
            BenchOptions(experiments=BOTH, target="http://h:1", api_key_env="MY_KEY", model="m"),
            "anaphora bench all --target http://h:1 --model m --api-key-env MY_KEY",
        ),
    ],
)
def test_only_what_differs_from_the_defaults_is_written(options: BenchOptions, command: str) -> None:
    assert options.command() == command
    assert shlex.split(command)[:2] == ["anaphora", "bench"]
