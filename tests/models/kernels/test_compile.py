"""Every kernel compiles ahead of time for the GPUs that people have, and fits them."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.models.kernels import interpreter  # noqa: F401  # skips where there is no Triton

PROGRAM = Path(__file__).with_name("compile_all.py")
SHARED_LIMIT = {80: 163 << 10, 86: 99 << 10, 89: 99 << 10, 90: 227 << 10}
"""Bytes of shared memory that one program may have (CUDA C++ Programming Guide, technical specifications)."""
SPILLED_LIMIT = {80: 0, 86: 0, 89: 0, 90: 224}
"""Bytes a thread. On Hopper the measured best sizes spill some values around their loops."""
REDUCTION_LIMIT = {"rotations": 32}
"""Bytes a thread. A large angle is reduced through a small table, which some versions of Triton keep there."""


@pytest.fixture(scope="module")
def kernels() -> list[dict[str, Any]]:
    """What each kernel needs on each architecture. A process of its own compiles: here kernels are interpreted."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, str(PROGRAM), *map(str, SHARED_LIMIT)]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("capability", SHARED_LIMIT)
def test_kernels_fit(capability: int, kernels: list[dict[str, Any]]) -> None:
    needs = [needs for needs in kernels if needs["capability"] == capability]
    assert len(needs) >= 11
    assert max(kernel["shared_bytes"] for kernel in needs) <= SHARED_LIMIT[capability], needs
    for kernel in needs:
        assert kernel["stack_bytes"] <= REDUCTION_LIMIT.get(kernel["kernel"], SPILLED_LIMIT[capability]), kernel
