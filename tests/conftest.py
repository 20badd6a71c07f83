"""For all tests: no GPU is used, whatever the machine has, and no random test is judged by the time it takes."""

import os

from hypothesis import HealthCheck, settings

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before anything imports one
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")
