"""Tiny models and servers that several tests share."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.models_for_tests import tiny_checkpoint
from tests.server.live import LiveServer, client_of, serving


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Llama with 400 tokens and a context of 512."""
    return tiny_checkpoint(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def live(tiny_model: Path) -> Iterator[LiveServer]:
    """A server for that model, shared by all tests: each uses prompts or salts of its own."""
    with serving(tiny_model) as server:
        yield server


@pytest.fixture
def client(live: LiveServer) -> Iterator[httpx.Client]:
    """An HTTP client for it."""
    with client_of(live) as client:
        yield client
