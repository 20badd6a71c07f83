"""Which device is chosen."""

import logging

import pytest
import torch

from anaphora.engine.gpu.device import choose_device
from anaphora.errors import ConfigError


def test_no_gpu_means_cpu_with_a_line(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with caplog.at_level(logging.INFO):
        assert choose_device("auto") == torch.device("cpu")
    assert "no GPU" in caplog.text
    with pytest.raises(ConfigError, match="torch sees no GPU"):
        choose_device("cuda")


def test_the_first_visible_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "a GPU")
    assert choose_device("auto") == choose_device("cuda") == torch.device("cuda", 0)
    assert choose_device("cpu") == torch.device("cpu")
