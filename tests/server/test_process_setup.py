"""How a serving process searches for cycles: not while it loads, and later not in what it has loaded."""

import subprocess
import sys

PROGRAM = """
import gc, sys
from anaphora.server.process_setup import set_up_process, settle_memory
set_up_process()
while_loading = gc.isenabled()
loaded = [[] for _ in range(1000)]
settle_memory()
print(while_loading, gc.isenabled(), gc.get_freeze_count() > 1000, len(gc.get_objects()) < 1000)
"""


def test_what_is_loaded_is_left_out_of_searches_for_cycles() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["False", "True", "True", "True"]
