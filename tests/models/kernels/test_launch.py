"""Kernels are launched, or compiled once for each kind of arguments."""

from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: it comes with the dev extra on Linux")

from anaphora.models.kernels.launch import compiling, launch  # isort: skip


class Kernel:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []
        self.warmed: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args, **options: self.launched.append((grid, args, options))

    def warmup(self, *args: Any, grid: tuple[int, ...], **options: Any) -> None:
        self.warmed.append((grid, args, options))


def test_a_kernel_is_launched() -> None:
    kernel, x = Kernel(), torch.zeros(2)
    launch(kernel, (3, 1), x, 5, WIDTH=8, num_warps=4)
    assert kernel.launched == [((3, 1), (x, 5), {"WIDTH": 8, "num_warps": 4})]
    assert not kernel.warmed


def test_each_kind_is_compiled_once_and_nothing_is_launched() -> None:
    kernel = Kernel()
    with compiling(num_threads=1):
        for x in (torch.zeros(2), torch.ones(3), torch.zeros(2).half()):
            launch(kernel, (1,), x, 5, WIDTH=8)
        launch(kernel, (1,), torch.zeros(2), 6, WIDTH=8)
        launch(kernel, (1,), torch.zeros(2), 5, WIDTH=16)
    assert [(args[0].dtype, args[1], options["WIDTH"]) for _, args, options in kernel.warmed] == [
        (torch.float32, 5, 8),
        (torch.float16, 5, 8),
        (torch.float32, 6, 8),
        (torch.float32, 5, 16),
    ]
    assert not kernel.launched


def test_afterwards_kernels_are_launched_again_whatever_happened() -> None:
    kernel = Kernel()
    with pytest.raises(ZeroDivisionError), compiling(num_threads=1):
        raise ZeroDivisionError
    launch(kernel, (1,))
    assert len(kernel.launched) == 1
