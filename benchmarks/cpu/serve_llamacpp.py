"""llama.cpp's own HTTP server, from the wheel ``xllamacpp``: run it with the interpreter that has that wheel.

python benchmarks/cpu/serve_llamacpp.py MODEL.gguf PORT [SLOTS]
"""

import sys
import threading

import xllamacpp

TOKENS_PER_SLOT = 4096
NUM_THREADS = 2


def main(model: str, port: str, slots: str = "4") -> None:
    """Serve until killed. ``slots``: prompts that it keeps and requests that it runs at once."""
    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.hostnames = ["127.0.0.1"]
    settings.port = int(port)
    settings.n_parallel = int(slots)
    settings.n_ctx = TOKENS_PER_SLOT * int(slots)
    settings.cpuparams.n_threads = NUM_THREADS
    settings.cpuparams_batch.n_threads = NUM_THREADS
    settings.use_jinja = True
    server = xllamacpp.Server(settings)
    print("serving at", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
