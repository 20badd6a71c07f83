"""Kernels in Triton's interpreter. Importing this skips the importing module where there is none that works."""

import numpy as np
import pytest
from packaging.version import Version

triton = pytest.importorskip("triton", reason="Triton is not installed: it comes with the dev extra on Linux")
if Version(triton.__version__) < Version("3.7") and Version(np.__version__) >= Version("2.4"):
    pytest.skip("the interpreter of this Triton loops over no loaded number with NumPy 2.4", allow_module_level=True)
