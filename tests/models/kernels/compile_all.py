"""Compiles every kernel for the architectures given as arguments, without a GPU, and prints what each one needs.

One JSON object a line: ``capability``, ``kernel``, ``shared_bytes`` a program, ``stack_bytes`` a thread (what registers
do not hold).
"""

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.pop("TRITON_INTERPRET", None)

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from anaphora.models.attention.tiles import tile_configs
from anaphora.models.kernels import fold, linear, mlp, norm, paged_attention, rotary, skinny, tokens

CUOBJDUMP = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
QWEN = {"NUM_KV_HEADS": 4, "GROUP": 7, "BLOCK_SIZE": 16}
Spec = tuple[str, Any, str, dict[str, Any], int, int]
"""Name, kernel, types of the arguments that are no constants, constants, warps, stages."""


def specs(capability: int) -> Iterator[Spec]:
    """All kernels; attention with every size that this architecture uses, heads of 128 elements and of others."""
    early: dict[str, Any] = {"EARLY": capability >= 90}
    sizes = {
        (c.rows, c.few_rows, c.columns, c.num_warps, c.num_stages)
        for c in tile_configs(divmod(capability, 10)).values()
    }
    for rows, few_rows, columns, num_warps, num_stages in sorted(sizes):
        for dim in (64, 96, 128) if capability == 86 else (128,):
            constants = QWEN | {"DIM": dim, "PADDED": 64 if dim == 64 else 128, "PRECISION": "tf32"}
            constants |= {"ROWS": rows, "FEW_ROWS": few_rows, "COLUMNS": columns} | early
            types = "*bf16 *bf16 *i32 *i32 *i32 *i32 *fp32 *fp32 *bf16 fp32 i32"
            yield f"attend {rows} {dim}", paged_attention.attend_kernel, types, constants, num_warps, num_stages
    join = {"NUM_HEADS": 28, "DIM": 128, "PADDED": 128, "STEP": 32} | early
    yield "join", paged_attention.join_kernel, "*i32 *fp32 *fp32 *bf16", join, 2, 3
    wide = {"WIDTH": 3584, "PADDED": 4096, "HAS_RESIDUAL": True, "PARTS": 1} | early
    some = {"NUM_HEADS": 28, "HEADS": fold.HEADS, "DIM": 128, "PADDED": 128}
    for count, keeps in ((2, False), (fold.MAX_STRETCHES, True)):
        types = f"{'*bf16 ' * 4} {'*fp32 ' * 4} {'*fp32' if keeps else '*bf16'} *fp32 i32 i32 i32 i32"
        yield f"fold {count}", fold.fold_kernel, types, some | {"COUNT": count, "KEEPS_LSE": keeps}, 2, 3
    yield "rms_norm", norm.rms_norm_kernel, "*bf16 *bf16 *bf16 *bf16 fp32", wide, 8, 3
    yield "rms_norm of parts", norm.rms_norm_kernel, "*fp32 *bf16 *bf16 *bf16 fp32", wide | {"PARTS": 4}, 8, 3
    yield "silu_mul", mlp.silu_mul_kernel, "*bf16 *bf16 i32", {"COLUMNS": mlp.COLUMNS} | early, 4, 3
    pairs = {"PAIRS": 64, "PADDED": 64}
    yield "rotations", rotary.rotations_kernel, "*i32 *fp32 *fp32 fp32", pairs, 1, 3
    heads = {"NUM_HEADS": 28, "NUM_KV_HEADS": 4, "DIM": 128, "PADDED": 128, "HEADS": rotary.HEADS, "HAS_NORM": True}
    types = "*fp32 *i32 *bf16 *bf16 *bf16 *bf16 fp32 i32"
    for parts, kind in ((1, "*bf16"), (2, "*fp32")):
        constants = heads | early | {"PARTS": parts}
        yield f"rotate_and_cache {parts}", rotary.rotate_and_cache_kernel, f"{kind} {types}", constants, 2, 3
    yield from skinny_specs(early, hopper=capability >= 90)
    tile = {"ROWS": linear.ROWS, "COLUMNS": linear.COLUMNS, "DEPTH": linear.DEPTH, "HAS_BIAS": True}
    types = "*bf16 *bf16 *bf16 *bf16 i32 i32 i32"
    yield "linear", linear.linear_kernel, types, tile | {"PRECISION": "tf32"}, 4, 4
    yield "gather_rows", tokens.gather_rows_kernel, "*bf16 *i32 *i32 *bf16 i32", {"COLUMNS": tokens.COLUMNS}, 4, 3
    yield "chunk_argmax", tokens.chunk_argmax_kernel, "*bf16 *fp32 *i32 i32", {"CHUNK": tokens.CHUNK}, 4, 3
    vectors = {"VECTORS": tokens.VECTORS, "DIM": 128, "PADDED": 128}
    yield "move_slots", tokens.move_slots_kernel, "*bf16 *i32 i32 i32", vectors, 2, 3
    gathered = {"BLOCK_SIZE": 16, "TOKENS": tokens.TOKENS, "DIM": 128, "PADDED": 128}
    yield "gather_tokens", tokens.gather_tokens_kernel, "*bf16 *i32 *bf16 i32 i32 i32 i32", gathered, 4, 3
    yield "merge_argmax", tokens.merge_argmax_kernel, "*fp32 *i32 *i32 i32", {"PADDED": 64}, 1, 3


def skinny_specs(early: dict[str, Any], *, hopper: bool) -> Iterator[Spec]:
    """Products of few rows: of one row and of many, in parts and gated."""
    for rows in (8, skinny.MAX_ROWS):
        for gated in (False, True):
            sizes = skinny.sizes_for(rows, 2 * 3584, 18944, num_sms=100, hopper=hopper, gated=gated)
            assert sizes is not None
            tile: dict[str, Any] = {
                "ROWS": rows,
                "COLUMNS": sizes.columns,
                "DEPTH": sizes.depth,
                "PRECISION": "tf32",
                "EVEN": True,
            }
            tile |= early | {"AHEAD": skinny.AHEAD, "GATED": gated, "HAS_BIAS": not gated}
            types = f"*bf16 *bf16 *bf16 {'*bf16' if gated else '*fp32'} i32 i32 i32 i32"
            name = f"skinny {rows} {'gated' if gated else 'parts'}"
            yield name, skinny.skinny_kernel, types, tile, skinny.NUM_WARPS, sizes.num_stages


def needs(job: tuple[int, int]) -> dict[str, Any]:
    """Compile one, given as architecture and place in the list."""
    capability, place = job
    name, kernel, types, constants, num_warps, num_stages = list(specs(capability))[place]
    rest = iter(types.split())
    signature = {arg: "constexpr" if arg in constants else next(rest) for arg in kernel.arg_names}
    aligned = {(index,): [["tt.divisibility", 16]] for index, kind in enumerate(signature.values()) if kind[0] in "*i"}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=aligned)
    options = {"num_warps": num_warps, "num_stages": num_stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = subprocess.run([CUOBJDUMP, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    stack = max(int(size) for size in re.findall(r"(?:STACK|LOCAL):(\d+)", usage))
    shared = compiled.metadata.shared
    return {"capability": capability, "kernel": name, "shared_bytes": shared, "stack_bytes": stack}


def main() -> None:
    jobs = [(arch, place) for arch in map(int, sys.argv[1:]) for place in range(len(list(specs(arch))))]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.imap(needs, jobs):
            print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
