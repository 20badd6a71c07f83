"""What all tests of the GPU's runner share."""

from tests.models.conftest import one_thread  # noqa: F401  # used by all tests here
