"""What is moved onto huge pages: whole ones, of memory that is in use; and that moving changes no value."""

import ctypes
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from anaphora.models import huge_pages

MAPPING = """{start:x}-{end:x} {kind} 00000000 00:00 0 {name}
Size:           {size:8} kB
KernelPageSize:        4 kB
MMUPageSize:           4 kB
Rss:            {resident:8} kB
Pss:            {resident:8} kB
VmFlags: rd wr mr mw me ac sd
"""
PAGE = huge_pages.HUGE_PAGE


def mapping(start: int, end: int, *, used: float = 1.0, kind: str = "rw-p", name: str = "") -> str:
    size = (end - start) // 1024
    return MAPPING.format(start=start, end=end, kind=kind, name=name, size=size, resident=int(size * used))


def test_only_whole_pages_of_used_anonymous_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    smaps = tmp_path / "smaps"
    smaps.write_text(
        mapping(10 * PAGE - 4096, 12 * PAGE + 4096)
        + mapping(20 * PAGE, 30 * PAGE, used=0.9)
        + mapping(40 * PAGE + 4096, 42 * PAGE - 4096)
        + mapping(50 * PAGE, 60 * PAGE, kind="r--p")
        + mapping(70 * PAGE, 80 * PAGE, name="/some/file")
        + mapping(90 * PAGE, 95 * PAGE, name="[heap]", used=0.96)
        + mapping(96 * PAGE, 98 * PAGE, name="[stack]")
    )
    moved: list[tuple[int, int, int]] = []

    def madvise(start: int, size: int, advice: int) -> int:
        moved.append((start // PAGE, size // PAGE, advice))
        return -1 if start == 90 * PAGE else 0

    monkeypatch.setattr(huge_pages, "_SMAPS", smaps)
    monkeypatch.setattr(ctypes, "CDLL", lambda _: SimpleNamespace(madvise=madvise))
    assert huge_pages.collapse_resident_memory() == 2 * PAGE
    assert moved == [(10, 2, 25), (90, 5, 25)]


def test_values_stay() -> None:
    values = torch.arange(3 * PAGE // 8)
    assert huge_pages.collapse_resident_memory() >= 0
    assert torch.equal(values, torch.arange(len(values)))


def test_systems_without_it_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_SMAPS", tmp_path / "none")
    assert huge_pages.collapse_resident_memory() == 0
