"""Three tokenizers, loaded once: a tiny one of our own, Qwen2.5's, and the default model's."""

from pathlib import Path

import pytest
from tests.models_for_tests import write_tiny_tokenizer
from tests.models_for_tests.qwen_tokenizer import qwen_tokenizer_folder

from anaphora.checkpoints import find_checkpoint
from anaphora.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny-tokenizer")
    write_tiny_tokenizer(folder)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(tiny_folder)


@pytest.fixture(scope="session")
def qwen_folder() -> Path:
    return qwen_tokenizer_folder()


@pytest.fixture(scope="session")
def qwen(qwen_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(qwen_folder)


@pytest.fixture(scope="session")
def smollm_folder() -> Path:
    return find_checkpoint().path


@pytest.fixture(scope="session")
def smollm(smollm_folder: Path) -> Tokenizer:
    return Tokenizer.from_folder(smollm_folder)


@pytest.fixture(scope="session", params=["tiny", pytest.param("smollm", marks=pytest.mark.real_model), "qwen"])
def each_name(request: pytest.FixtureRequest) -> str:
    """The name of each of the three."""
    name: str = request.param
    return name


@pytest.fixture(scope="session")
def each(each_name: str, request: pytest.FixtureRequest) -> Tokenizer:
    """Each of the three."""
    tokenizer: Tokenizer = request.getfixturevalue(each_name)
    return tokenizer


@pytest.fixture(scope="session")
def each_folder(each_name: str, request: pytest.FixtureRequest) -> Path:
    """The folder of each of the three."""
    folder: Path = request.getfixturevalue(f"{each_name}_folder")
    return folder
