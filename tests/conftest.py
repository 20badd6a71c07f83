"""For all tests: a GPU is used by those marked ``gpu`` alone, and no random test is judged by the time it takes."""

import gc
import os
import shlex
import sys
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings

ON_A_GPU = "gpu"
INTERPRETED = "TRITON_INTERPRET"


def asks_for_a_gpu(arguments: Sequence[str]) -> bool:
    """Whether tests are chosen by ``-m gpu``."""
    return ("-m", ON_A_GPU) in pairwise(arguments) or f"-m{ON_A_GPU}" in arguments


# read when a kernel is defined, so before other conftests import some; on a GPU kernels are compiled, and one process
# cannot do both; processes that test side by side have it from the first
if "PYTEST_XDIST_WORKER" not in os.environ and not asks_for_a_gpu(
    [*shlex.split(os.environ.get("PYTEST_ADDOPTS", "")), *sys.argv]
):
    os.environ[INTERPRETED] = "1"
# as many processes test as there are cores: libraries that spread their work over all of them only get in the way
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish(session: pytest.Session) -> None:
    """What importing all tests has loaded stays to the end: whoever looks for garbage need not look there, too."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Libraries that tidy up as the process ends find everything again."""
    gc.unfreeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``gpu`` run where they were asked for and can."""
    if item.get_closest_marker(ON_A_GPU) is None:
        return
    if INTERPRETED in os.environ:
        pytest.skip("needs a GPU: run pytest -m gpu")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
