"""For all tests: no GPU is used, whatever the machine has, and no random test is judged by the time it takes."""

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


def pytest_collection_finish(session: pytest.Session) -> None:
    """What importing all tests has loaded stays to the end: whoever looks for garbage need not look there, too."""
    gc.collect()
    gc.freeze()
