"""Memory after matrix products with many different numbers of rows, by how many prepared products oneDNN may keep.

python -m benchmarks.soak.products [--kept 64 128 256 1024] [--rows 1600]
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

CACHES = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")


def main() -> None:
    """A process of its own for each capacity: it is read once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kept", type=int, nargs="+", default=[64, 128, 256, 1024])
    parser.add_argument("--rows", type=int, default=1600)
    options = parser.parse_args()
    for kept in options.kept:
        command = [sys.executable, "-m", "benchmarks.soak.products", "--rows", str(options.rows), "--kept"]
        if len(options.kept) > 1:
            environment = {**os.environ, **dict.fromkeys(CACHES, str(kept))}
            subprocess.run([*command, str(kept)], env=environment, check=True)
        else:
            print(f"{kept:5} kept: {resident_mib_after(options.rows)} MiB resident")


def resident_mib_after(num_rows: int) -> int:
    """Of this process, after one product and one product with addition for each number of rows up to ``num_rows``."""
    import torch

    from anaphora.models.linear import PackedLinear

    torch.set_num_threads(1)
    product, product_and = PackedLinear(torch.randn(192, 64), None), PackedLinear(torch.randn(64, 96), None)
    for rows in range(1, num_rows + 1):
        product(torch.randn(rows, 64))
        product_and.add_to(torch.randn(rows, 64), torch.randn(rows, 96))
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


if __name__ == "__main__":
    main()
