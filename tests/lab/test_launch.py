"""Command lines of servers that are started for a run: presets, own words, and what cannot be."""

import sys

import pytest

from anaphora.errors import ConfigError
from anaphora.lab.experiments.switch import SwitchSettings
from anaphora.lab.options import BenchOptions
from anaphora.lab.targets.launch import LaunchCommand, ours

HERE = ["--host", "127.0.0.1", "--port", "81"]


@pytest.mark.parametrize(
    ("text", "on", "off"),
    [
        (
            "vllm:some/model",
            ["vllm", "serve", "some/model", *HERE, "--enable-prompt-tokens-details", "--enable-prefix-caching"],
            ["vllm", "serve", "some/model", *HERE, "--enable-prompt-tokens-details", "--no-enable-prefix-caching"],
        ),
        (
            "llama.cpp:a b.gguf",
            ["llama-server", "-m", "a b.gguf", *HERE, "--metrics", "--cache-prompt"],
            ["llama-server", "-m", "a b.gguf", *HERE, "--metrics", "--no-cache-prompt"],
        ),
        (
            "env X=1 python -m sglang.launch_server --port={port} {prefix_flag}",
            ["env", "X=1", "python", "-m", "sglang.launch_server", "--port=81"],
            ["env", "X=1", "python", "-m", "sglang.launch_server", "--port=81", "--disable-radix-cache"],
        ),
        ("serve-it '{port}' --x", ["serve-it", "81", "--x"], ["serve-it", "81", "--x"]),
        (
            "ours:m",
            [sys.executable, "-m", "anaphora", "serve", "m", *HERE, "--enable-prefix-caching"],
            [sys.executable, "-m", "anaphora", "serve", "m", *HERE, "--no-enable-prefix-caching"],
        ),
    ],
)
def test_commands(text: str, on: list[str], off: list[str]) -> None:
    command = LaunchCommand.parse(text)
    assert command.of(81, prefix_caching=True) == on
    assert command.of(81, prefix_caching=False) == off
    assert command.of(81, prefix_caching=True, extra=["--more"]) == [*on, "--more"]
    assert command.has_switch == (on != off)


SWITCH = (SwitchSettings(),)


def test_our_own_server_needs_no_model() -> None:
    assert ours(None).of(81, prefix_caching=True)[1:4] == ["-m", "anaphora", "serve"]
    assert ours("m").of(81, prefix_caching=True)[4] == "m"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("vllm serve m", r"takes a command line with \{port\} in it, once, or one of ours:MODEL"),
        ("other:m", "takes a command line"),
        ("vllm:", "takes a command line"),
        ("serve {port} {port}", "once"),
        ("serve 'it {port}", "is no command line: No closing quotation"),
        ("serve {port} {prefix_flag}", "is known for anaphora, vllm, sglang, llama only: write the flag itself"),
    ],
)
def test_what_cannot_be_started(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        LaunchCommand.parse(text)


def test_options_that_do_not_go_together() -> None:
    with pytest.raises(ConfigError, match="leave out --target and --model"):
        BenchOptions(experiments=SWITCH, launch="vllm:m", model="n")
    for wait_s in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ConfigError, match="--wait must be between 0 seconds and a day"):
            BenchOptions(experiments=SWITCH, wait_s=wait_s)
    with pytest.raises(ConfigError, match="--questions must be at most 10,000"):
        SwitchSettings(num_questions=10_001)
    with pytest.raises(ConfigError, match="leave out --target and --model"):
        BenchOptions(experiments=SWITCH, launch="vllm:m", target="http://h")
    with pytest.raises(ConfigError, match=r"write \{prefix_flag\} there"):
        BenchOptions(experiments=SWITCH, launch="serve {port}", arms="flag")
    assert (
        BenchOptions(experiments=SWITCH, launch="vllm:m", arms="flag").command()
        == "anaphora bench switch --arms flag --launch vllm:m"
    )
