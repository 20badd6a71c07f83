"""The wait policy is in the environment before torch can load its OpenMP runtime, and the user's own choice stays."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import os, sys
import anaphora.engine
assert "torch" not in sys.modules
print(os.environ.get("GOMP_SPINCOUNT"), os.environ.get("OMP_WAIT_POLICY"))
"""


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, "3000 None"),
        ({"GOMP_SPINCOUNT": "7"}, "7 None"),
        ({"OMP_WAIT_POLICY": "PASSIVE"}, "None PASSIVE"),
    ],
)
def test_importing_the_engine_settles_how_threads_wait(chosen: dict[str, str], expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")} | chosen
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
