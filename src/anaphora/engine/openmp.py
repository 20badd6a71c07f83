"""How the threads of one matrix product wait for each other. It must be settled before torch loads its OpenMP runtime.

GNU's runtime spins for milliseconds by default. On a machine that does anything else, the waiting thread then burns
the very time slice that the other one needs, and steps take many times longer. A short spin covers the gaps between
two operators and then sleeps. Measured on 2 cores with SmolLM2-135M, 20 new tokens over 1024 cached ones and a decode
step, in ms:

======================  ==============  =================
spin count              machine quiet   one core also busy
======================  ==============  =================
GNU's default           59 and 33       274 and 169
0                       83 and 49       126 and 71
3000                    62 and 34       131 and 77
======================  ==============  =================
"""

import os

SPIN_COUNT = 3000
_USERS_CHOICES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def spin_briefly() -> None:
    """Ask GNU OpenMP for a short spin, unless the user has chosen. Other runtimes do not read the variable."""
    if not any(name in os.environ for name in _USERS_CHOICES):
        os.environ["GOMP_SPINCOUNT"] = str(SPIN_COUNT)
