"""How every process that serves is set up: its log, and how its threads take turns."""

import logging
import sys

SWITCH_INTERVAL_S = 0.00005
"""How long one thread of Python may keep another from running. Engine and event loop hand a request to and fro, and at
Python's 5 ms each hand-over may wait that long: a hit of 30 000 tokens then takes three times the host's time."""
LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def set_up_process() -> None:
    """To be called once, before the event loop starts."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format=LOG_FORMAT, datefmt="%H:%M:%S")
