"""Every step of every engine in these tests is followed by an audit of the whole scheduler and cache."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from anaphora.engine.core_output import CoreOutput
from anaphora.engine.engine_core import EngineCore
from anaphora.tokenizer.tokenizer import Tokenizer
from tests.engine.oracle import Comparison, Oracle
from tests.models_for_tests import ARCHITECTURES, tiny_checkpoint

COMPARISON = pytest.StashKey[Comparison]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Near ties are counted and shown."""
    if COMPARISON in config.stash:
        terminalreporter.write_line(f"engine against transformers: {config.stash[COMPARISON]}")


@pytest.fixture(scope="session")
def comparison(pytestconfig: pytest.Config) -> Comparison:
    """The whole session's comparisons, shown at the end."""
    return pytestconfig.stash.setdefault(COMPARISON, Comparison())


@pytest.fixture(autouse=True)
def audited_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    step = EngineCore.step

    def audited(core: EngineCore) -> list[CoreOutput] | None:
        outputs = step(core)
        core.scheduler.check_integrity()
        return outputs

    monkeypatch.setattr(EngineCore, "step", audited)


@pytest.fixture(scope="session")
def tiny_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A tiny model of each architecture."""
    root = tmp_path_factory.mktemp("tiny-models")
    return {name: tiny_checkpoint(root / name, name) for name in ARCHITECTURES}


@pytest.fixture(scope="session")
def tiny_tokenizer(tiny_folders: dict[str, Path]) -> Tokenizer:
    return Tokenizer.from_folder(tiny_folders["llama3"])


@pytest.fixture(scope="session")
def oracles(tiny_folders: dict[str, Path]) -> Callable[[str], Oracle]:
    """The judge of each tiny model, loaded when it is first asked for."""
    return cache(lambda architecture: Oracle(tiny_folders[architecture]))
