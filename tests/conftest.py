"""For all tests: a GPU is used by those marked ``gpu`` alone, and no random test is judged by the time it takes."""

import gc
import os
import sys
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, settings

ON_A_GPU = "gpu"
INTERPRETED = "TRITON_INTERPRET"
if ("-m", ON_A_GPU) not in pairwise(sys.argv):  # on a GPU they are compiled, and one process cannot do both
    os.environ[INTERPRETED] = "1"  # read when a kernel is defined: before other conftests import some, too
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
