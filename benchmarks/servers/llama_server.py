"""llama.cpp's own HTTP server, from the wheel ``xllamacpp``: run it with the interpreter that has that wheel.

python benchmarks/servers/llama_server.py --model MODEL.gguf --port PORT [...]

The options are named as ``llama-server`` names them, so that one command line serves both.
"""

import argparse
import threading

import xllamacpp


def arguments() -> argparse.Namespace:
    """Those of ``llama-server`` that the measurements need, by its own names; times of waiting are its defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-m", "--model", required=True)
    parser.add_argument("-a", "--alias", help="the model's name for clients (default: its file's)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("-np", "--parallel", type=int, default=4, help="slots: prompts kept, and requests run at once")
    parser.add_argument("-c", "--ctx-size", type=int, help="tokens of all slots together (default: 4096 a slot)")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("--cache-ram", type=int, help="MiB for prompts that lost their slot; 0: none")
    parser.add_argument("--cache-prompt", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--metrics", action="store_true")
    parser.add_argument("--slots", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Serve until killed."""
    asked = arguments()
    settings = xllamacpp.CommonParams()
    settings.model.path = asked.model
    if asked.alias:
        settings.model_alias = {asked.alias}
    settings.hostnames = [asked.host]
    settings.port = asked.port
    settings.n_parallel = asked.parallel
    settings.n_ctx = asked.ctx_size or 4096 * asked.parallel
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = asked.threads
    settings.cache_prompt = asked.cache_prompt
    settings.endpoint_metrics, settings.endpoint_slots = asked.metrics, asked.slots
    if asked.cache_ram is not None:
        settings.cache_ram_mib = asked.cache_ram
    settings.use_jinja = True
    server = xllamacpp.Server(settings)
    print("serving at", server.listening_address, flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
