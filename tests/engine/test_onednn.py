"""The caches of prepared products are bounded before torch is there, and the user's own choice stays."""

import os
import subprocess
import sys

import pytest

NAMES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
PROGRAM = f"""
import os, sys
import anaphora.engine
assert "torch" not in sys.modules
print(*[os.environ[name] for name in {NAMES!r}])
"""


@pytest.mark.parametrize(("chosen", "expected"), [({}, "128 128"), ({NAMES[1]: "7"}, "128 7")])
def test_importing_the_engine_bounds_the_caches(chosen: dict[str, str], expected: str) -> None:
    environment = {k: v for k, v in os.environ.items() if k not in NAMES} | chosen
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == expected
