"""The examples run as they are against a server process, on a tiny model with Qwen2.5's tokenizer."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.models_for_tests import tiny_checkpoint
from tests.patience import PATIENCE_S
from tests.server_process import ServerUnderTest, server_process

EXAMPLES = Path(__file__).parents[2] / "examples"
PUBLISHED_PROMPT_TOKENS = [1504, 1501, 1500, 1500, 1500, 1502, 1499, 1500]
PUBLISHED_GRADIENT_TOKENS = [353, 681, 1337, 2649, 3961]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerUnderTest]:
    folder = tmp_path_factory.mktemp("models") / "qwen"
    sizes = {"num_hidden_layers": 1, "max_position_embeddings": 4096, "max_window_layers": 1}
    model = tiny_checkpoint(folder, "qwen2", tokenizer="qwen2.5", **sizes)
    names = ("--served-model-name", "qwen2.5-7b", "--served-model-name", "gpt-4o-mini")
    published = ("--gpu-memory-utilization", "0.85", "--max-model-len", "4096", "--enable-prefix-caching")
    with server_process(model, *names, *published, "--kv-cache-memory-bytes", "16MiB") as server:
        yield server


def run(name: str, *argv: str, **environment: str) -> str:
    command = [sys.executable, str(EXAMPLES / name), *argv]
    done = subprocess.run(
        command, capture_output=True, text=True, env={"PYTHONUTF8": "1", **environment}, timeout=PATIENCE_S
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_switch_experiment(server: ServerUnderTest) -> None:
    cloud = {"TAOTOKEN_BASE_URL": server.url, "TAOTOKEN_API_KEY": "sk-any"}
    shown = run("prefix_cache_test.py", "--base-url", server.url, "--cloud", **cloud)
    here, there = shown.split("云端对照")
    for part in (here, there):
        assert [int(count) for count in re.findall(r"ms +(\d+) tokens", part)] == PUBLISHED_PROMPT_TOKENS
    # of eight prompts with 1488 tokens (93 blocks) in common all but the first hit
    assert "命中率: 86.8%，节省 10416 tokens 的 KV 计算" in here
    # the published rate is that of a cache which earlier runs have filled
    warm = run("prefix_cache_test.py", VLLM_BASE_URL=server.url)
    assert "命中率: 99.2%，节省 11904 tokens 的 KV 计算" in warm


def test_the_length_experiment(server: ServerUnderTest, tmp_path: Path) -> None:
    shown = run("prefix_length_exp.py", "--cache", "on", "--base-url", server.url, "--results-dir", str(tmp_path))
    counts = [int(count) for count in re.findall(r"\[冷启动\] TTFT=\S+ prompt_tokens=(\d+)", shown)]
    assert counts == PUBLISHED_GRADIENT_TOKENS
    results = json.loads((tmp_path / "results_cache_on.json").read_text("utf-8"))
    assert [row["target_prefix_tokens"] for row in results] == [256, 512, 1024, 2048, 3072]
    assert all(row["min_ttft_ms"] <= row["avg_ttft_ms"] <= row["max_ttft_ms"] for row in results)


def test_the_quick_start(server: ServerUnderTest) -> None:
    first, second = re.findall(r"(\d+) of (\d+) prompt tokens cached", run("quickstart.py", server.url))
    assert first[0] == "0"
    assert int(second[0]) > 0.8 * int(second[1])
