"""All that is measured on a GPU machine, by one command, with what each part said kept beside the results.

    python -m benchmarks.gpu.everything MODEL_FOLDER --out benchmarks/results/h200 [--only NAME ...] [--dry-run]

MODEL_FOLDER has ``config.json`` and the tokenizer; weights are random (``--load-format dummy``). The parts run one
after another, each in a process of its own: one that fails does not keep the others from being measured.
``everything.json`` says which command ran, how long, and how it ended; the exit code is 1 if any failed.
"""

import argparse
import json
import shlex
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

SERVE = "serve {model} --load-format dummy --max-model-len 32768 --no-access-log --port {{port}}"
FRONT_ENDS = (1, 2, 4)


@dataclass(frozen=True, slots=True)
class Part:
    """One command, without the interpreter before it."""

    name: str
    command: str
    limit_s: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a part ended. ``exit_code`` is ``None`` if it took too long."""

    name: str
    command: str
    exit_code: int | None
    seconds: float
    log: str


def parts(model: Path, out: Path) -> list[Part]:
    """In the order in which they run: what must be right first, then what is to be fast."""
    servers = [
        f"--server {shlex.quote(f'{name}={sys.executable} -m anaphora {SERVE.format(model=model)} {flags}'.strip())}"
        for name, flags in [
            ("ours", ""),
            *((f"ours_{n}_front_ends", f"--api-server-count {n}") for n in FRONT_ENDS),
        ]
    ]
    serving = f"-m benchmarks.gpu.serving.run --tokenizer {model} --out {out / 'serving'}"
    return [
        Part("kernels_and_runner", "-m pytest -q -x tests/models tests/engine/gpu", 900),
        Part("kernels_against_float64", f"-m benchmarks.gpu.kernels {out / 'kernels.json'}", 600),
        Part("products", f"-m benchmarks.gpu.products {out / 'products.json'}", 300),
        Part("agreement", f"-m benchmarks.gpu.agreement {out / 'agreement.json'}", 300),
        Part("batch_invariance", f"-m benchmarks.gpu.batch_invariance {model} {out / 'batch_invariance.json'}", 600),
        Part("hits_and_colds", f"{serving} --phases prefixes,decode --twice ours {servers[0]}", 600),
        Part(
            "hit_split",
            f"-m benchmarks.gpu.serving.hit_split {model} {out / 'hit_split.json'} --load-format dummy",
            200,
        ),
        Part("passes", f"-m benchmarks.gpu.passes {model} {out / 'passes.json'} --rounds 1", 200),
        Part("clients_at_once", f"{serving} --phases bursts {' '.join(servers)}", 900),
        Part("overload", f"-m benchmarks.gpu.overload {model} {out / 'overload.json'}", 300),
        Part("host_path", f"-m benchmarks.serving.host_path {model} --out {out / 'host_path.json'}", 300),
        Part("front_ends", f"-m benchmarks.serving.front_ends {model} --out {out / 'front_ends.json'}", 600),
    ]


def run(part: Part, logs: Path) -> Outcome:
    """Run a part to its end or its limit; what it says goes to a file."""
    log = logs / f"{part.name}.log"
    started_s = time.monotonic()
    with log.open("wb") as file:
        try:
            command = [sys.executable, *shlex.split(part.command)]
            code: int | None = subprocess.run(
                command, stdout=file, stderr=subprocess.STDOUT, timeout=part.limit_s, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            code = None
    return Outcome(part.name, part.command, code, round(time.monotonic() - started_s, 1), log.name)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", action="append", default=[], help="name of a part; again for more")
    parser.add_argument("--dry-run", action="store_true", help="print the commands")
    options = parser.parse_args()
    known = parts(options.model, options.out)
    unknown = set(options.only) - {part.name for part in known}
    if unknown:
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(part.name for part in known)}")
    chosen = [part for part in known if not options.only or part.name in options.only]
    if options.dry_run:
        print("\n".join(f"{part.name}: {sys.executable} {part.command}" for part in chosen))
        return 0
    options.out.mkdir(parents=True, exist_ok=True)
    outcomes: list[Outcome] = []
    for part in chosen:
        outcomes.append(run(part, options.out))
        print(f"{part.name}: exit code {outcomes[-1].exit_code} after {outcomes[-1].seconds} s", flush=True)
        (options.out / "everything.json").write_text(json.dumps([asdict(o) for o in outcomes], indent=1) + "\n")
    return int(any(outcome.exit_code != 0 for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
