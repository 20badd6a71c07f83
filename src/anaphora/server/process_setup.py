"""How every process that serves is set up: its log, how its threads take turns, and when it searches for cycles."""

import gc
import logging
import sys

SWITCH_INTERVAL_S = 0.00005
"""How long one thread of Python may keep another from running. Engine and event loop hand a request to and fro, and at
Python's 5 ms each hand-over may wait that long: a hit of 30 000 tokens then takes three times the host's time."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def set_up_process() -> None:
    """To be called once, before the event loop starts; :func:`settle_memory` is to follow."""
    gc.disable()  # modules and weights are no cycles to be freed: imports take a fifth less time
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt="%H:%M:%S")


def settle_memory() -> None:
    """To be called once all is loaded, before the first request: what is here now stays until the end.

    Python's searches for cycles leave it out from now on. With torch it is 200 000 objects: to go through them takes a
    tenth of a second, in which no thread runs, and some requests in a thousand would wait for that.
    """
    gc.collect()
    gc.freeze()
    gc.enable()
