"""For all tests: a GPU is used by those marked ``gpu`` alone, and no random test is judged by the time it takes."""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before anything imports one
# as many processes test as there are cores: libraries that spread their work over all of them only get in the way
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

ON_A_GPU = "gpu"


def pytest_collection_finish(session: pytest.Session) -> None:
    """What importing all tests has loaded stays to the end: whoever looks for garbage need not look there, too."""
    gc.collect()
    gc.freeze()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Libraries that tidy up as the process ends find everything again."""
    gc.unfreeze()


def pytest_configure(config: pytest.Config) -> None:
    """``-m gpu``: kernels are compiled. One process cannot do both."""
    if config.option.markexpr == ON_A_GPU:
        del os.environ["TRITON_INTERPRET"]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Tests marked ``gpu`` run where they were asked for and can."""
    if item.get_closest_marker(ON_A_GPU) is None:
        return
    if "TRITON_INTERPRET" in os.environ:
        pytest.skip("needs a GPU: run pytest -m gpu")
    import torch

    if not torch.cuda.is_available():
        pytest.skip("there is no GPU")
