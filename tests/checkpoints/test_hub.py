"""Models by name, against a small hub of our own. The client reads its settings once, so each test is a process."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoints.fake_hub import COMMIT, FakeHub, serving
from tests.models_for_tests import tiny_checkpoint

from anaphora.checkpoints.hub import is_hub_name

SIZES = """
import json, sys
from anaphora.checkpoints import find_model_config
print(json.dumps({"hidden_size": find_model_config(sys.argv[1]).hidden_size}))
"""
FIND = """
import json, sys
from anaphora.checkpoints import find_checkpoint
from anaphora.errors import CheckpointError
calls = []
try:
    checkpoint = find_checkpoint(sys.argv[1], progress=lambda *call: calls.append(call))
    print(json.dumps({"path": str(checkpoint.path), "name": checkpoint.name, "calls": calls}))
except CheckpointError as error:
    print(json.dumps({"error": str(error)}))
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[FakeHub]:
    folder = tiny_checkpoint(tmp_path / "Tiny")
    for name in ("pytorch_model.bin", "consolidated.safetensors", "README.md", "onnx/model.onnx"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("not wanted")
    with serving("ann/Tiny", folder) as server:
        yield server


def settings(tmp_path: Path, endpoint: str) -> dict[str, str]:
    return os.environ | {"HF_ENDPOINT": endpoint, "HF_HOME": str(tmp_path / "hf"), "NO_PROXY": "*"}


def find(name: str, tmp_path: Path, endpoint: str, code: str = FIND) -> dict[str, Any]:
    command = [sys.executable, "-c", code, name]
    result = subprocess.run(command, env=settings(tmp_path, endpoint), stdout=subprocess.PIPE, text=True, check=True)
    answer: dict[str, Any] = json.loads(result.stdout)
    return answer


def test_names() -> None:
    assert [
        name for name in ("a/b", "HuggingFaceTB/SmolLM2-135M", "a", "a/b/c", "/a", "a/", "") if is_hub_name(name)
    ] == [
        "a/b",
        "HuggingFaceTB/SmolLM2-135M",
    ]


def test_a_model_is_fetched_once_and_then_needs_no_hub(hub: FakeHub, tmp_path: Path) -> None:
    answer = find("ann/Tiny", tmp_path, hub.url)
    folder = Path(answer["path"])
    assert (answer["name"], folder.name) == ("ann/Tiny", COMMIT)
    assert sorted(path.name for path in folder.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    size = (folder / "model.safetensors").stat().st_size
    assert answer["calls"][-1] == ["downloading ann/Tiny", size, size]

    hub.requests.clear()
    assert find("ann/Tiny", tmp_path, hub.url) == {"path": str(folder), "name": "ann/Tiny", "calls": []}
    assert hub.requests == []


def test_a_models_sizes_do_not_fetch_its_weights(hub: FakeHub, tmp_path: Path) -> None:
    size = json.loads((hub.folder / "config.json").read_text())["hidden_size"]
    assert find("ann/Tiny", tmp_path, hub.url, SIZES) == {"hidden_size": size}
    assert not [path for path in hub.requests if path.endswith(".safetensors")]
    folder = Path(find("ann/Tiny", tmp_path, hub.url)["path"])
    assert (folder / "model.safetensors").is_file()  # they come when they are asked for


def test_kill_9_during_a_download_then_a_clean_start(hub: FakeHub, tmp_path: Path) -> None:
    hub.withheld = "model.safetensors"
    command = [sys.executable, "-c", FIND, "ann/Tiny"]
    with subprocess.Popen(command, env=settings(tmp_path, hub.url)) as process:
        assert hub.is_withholding.wait(60)
        process.kill()
    (snapshot,) = (tmp_path / "hf" / "hub" / "models--ann--Tiny" / "snapshots").iterdir()
    assert not (snapshot / "model.safetensors").exists()
    assert (snapshot / "tokenizer_config.json").exists()  # weights come last

    hub.withheld = ""
    answer = find("ann/Tiny", tmp_path, hub.url)
    assert (Path(answer["path"]) / "model.safetensors").read_bytes() == (hub.folder / "model.safetensors").read_bytes()


def test_what_cannot_be_had_says_what_to_do(hub: FakeHub, tmp_path: Path) -> None:
    assert find("ann/Other", tmp_path, hub.url) == {
        "error": "the hub has no model ann/Other, or it is private: check the name, or set HF_TOKEN"
    }
    hub.is_gated = True
    assert find("ann/Tiny", tmp_path, hub.url) == {
        "error": "ann/Tiny is gated: ask for access on its page on the hub, and set HF_TOKEN"
    }
    error = find("ann/Tiny", tmp_path, "http://127.0.0.1:9")["error"]
    assert error.startswith("ann/Tiny cannot be fetched from the hub (")
    assert error.endswith("): check the network and HF_ENDPOINT, or give a local folder or a .gguf file")
