"""Every test here has a home of its own, and no hub."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty ``ANAPHORA_HOME``."""
    folder = tmp_path / "home"
    monkeypatch.setenv("ANAPHORA_HOME", str(folder))
    return folder
