"""For all tests: no GPU is used, whatever the machine has."""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined, so before anything imports one
