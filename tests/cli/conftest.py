"""A tiny model for servers in processes of their own, and reports whose pictures are looked at elsewhere."""

from pathlib import Path

import pytest

from tests.models_for_tests import tiny_checkpoint
from tests.pictures import stand_ins

__all__ = ["stand_ins", "tiny_model"]


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_checkpoint(tmp_path_factory.mktemp("models") / "tiny")
