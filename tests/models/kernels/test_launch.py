"""Kernels are launched, or compiled once for each kind of arguments."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("triton", reason="Triton is not installed: it comes with the dev extra on Linux")

from anaphora.models.kernels import launch as launching  # isort: skip
from anaphora.models.kernels.launch import compiling, launch  # isort: skip


@pytest.fixture(autouse=True)
def nothing_is_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_ready", {})


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


class Compiled:
    """Notes how it is launched once Triton has handed it out."""

    def __init__(self) -> None:
        self.launched: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return lambda *args: self.launched.append((grid, args))


class Compiling(Kernel):
    """Hands out what it launches, one for all kinds; as Triton does where kernels are compiled in other threads,
    as what will be it."""

    arg_names = ("x", "number", "WIDTH", "EARLY")

    def __init__(self, *, later: bool = False) -> None:
        super().__init__()
        self.compiled = Compiled()
        self.handed_out = SimpleNamespace(result=lambda: self.compiled) if later else self.compiled

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            self.launched.append((grid, args, options))
            return self.handed_out

        return run


@pytest.mark.parametrize("later", [False, True])
def test_what_was_compiled_is_launched_without_asking_triton_again(
    later: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "CompiledKernel", Compiled)
    kernel, x = Compiling(later=later), torch.zeros(8)
    for number in (5, 6, 32, 48, 1, 2**31, 2**31 + 1):
        launch(kernel, (3,), x, number, EARLY=True, WIDTH=8, num_warps=4)
    assert [args[1] for _, args, _ in kernel.launched] == [5, 32, 1, 2**31, 2**31 + 1], "each kind of number once"
    assert kernel.compiled.launched == [((3, 1, 1), (x, 6, 8, True)), ((3, 1, 1), (x, 48, 8, True))]


@pytest.mark.parametrize(
    "other",
    [
        ((torch.zeros(8).half(), 5), {"WIDTH": 8, "EARLY": True}),
        ((torch.zeros(8)[1:], 5), {"WIDTH": 8, "EARLY": True}),
        ((torch.zeros(8), 5.0), {"WIDTH": 8, "EARLY": True}),
        ((torch.zeros(8), True), {"WIDTH": 8, "EARLY": True}),
        ((torch.zeros(8), 5), {"WIDTH": 16, "EARLY": True}),
        ((torch.zeros(8), 5), {"WIDTH": 8.0, "EARLY": True}),
        ((torch.zeros(8), 5), {"WIDTH": 8, "EARLY": 1}),
        ((torch.zeros(8), 5), {"WIDTH": 8, "EARLY": True, "num_warps": 8}),
    ],
)
def test_other_kinds_are_left_to_triton(other: tuple[Any, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "CompiledKernel", Compiled)
    kernel = Compiling()
    launch(kernel, (3,), torch.zeros(8), 5, WIDTH=8, EARLY=True)
    args, constants = other
    launch(kernel, (3,), *args, **constants)
    assert len(kernel.launched) == 2
    assert not kernel.compiled.launched


def test_a_kernel_that_takes_the_place_of_another_is_not_taken_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "CompiledKernel", Compiled)
    for _ in range(50):
        kernel = Compiling()
        launch(kernel, (3,), torch.zeros(8), 5, WIDTH=8, EARLY=True)
        assert len(kernel.launched) == 1
        del kernel


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
