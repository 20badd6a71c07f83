"""Every test here has a home of its own, and no hub."""

from pathlib import Path

import pytest
from tests.models_for_tests.qwen_tokenizer import qwen_tokenizer_folder


@pytest.fixture(scope="session")
def qwen_folder() -> Path:
    """Qwen2.5's tokenizer, kept in the user's home: a session's fixtures are made before a test's home is set."""
    return qwen_tokenizer_folder()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``ANAPHORA_HOME``."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ANAPHORA_HOME", str(folder))
    return folder
