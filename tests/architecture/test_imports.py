"""House rules: who may import whom, and which rooms must never load torch (docs/architecture.md draws the table)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src" / "anaphora"
FOUNDATION = {"types", "errors", "cores"}

MAY_IMPORT: dict[str, set[str]] = {
    "types": set(),
    "errors": set(),
    "cores": set(),
    "kvcache": set(),
    "scheduler": {"kvcache"},
    "checkpoints": set(),
    "tokenizer": {"checkpoints"},
    "traces": set(),
    "protocol": set(),
    "report": set(),
    "sim": {"scheduler", "kvcache", "traces", "tokenizer", "checkpoints", "report"},
    "explain": {"sim", "traces", "tokenizer", "report"},
    "models": {"checkpoints"},
    "engine": {"scheduler", "kvcache", "tokenizer", "models", "checkpoints"},
    "server": {"engine", "protocol", "tokenizer"},
    "lab": {"protocol", "traces", "sim", "explain", "tokenizer", "checkpoints", "report"},
    "cli": {
        *("kvcache", "checkpoints", "tokenizer", "traces", "protocol"),
        *("sim", "explain", "engine", "server", "lab", "report"),
    },
    "__init__": {"engine"},
    "__main__": {"cli"},
}
PLAIN_ROOMS = [
    *("kvcache", "scheduler", "checkpoints", "tokenizer", "traces", "protocol"),
    *("report", "sim", "explain", "lab", "cli"),
]
STANDARD_LIBRARY_ONLY = ["types", "errors", "kvcache", "scheduler"]
NOT_IN_THE_CORE = {"time", "os", "random", "socket", "asyncio", "logging", "datetime", "threading"}


def room_of(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports_of(path: Path) -> list[str]:
    """Every module that a file imports, at any depth, as dotted names."""
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names.append(node.module or "")
            if node.module == "anaphora":
                names += [f"anaphora.{alias.name}" for alias in node.names]
    return names


FILES = sorted(SRC.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SRC)))
def test_a_file_imports_only_what_its_room_may(path: Path) -> None:
    room = room_of(path)
    assert room in MAY_IMPORT, f"{room} is a new room: give it a row in the table, in the docs and here"
    for name in imports_of(path):
        parts = name.split(".")
        if parts[0] == "anaphora" and len(parts) > 1 and parts[1] not in {"__version__", room} | FOUNDATION:
            assert parts[1] in MAY_IMPORT[room], f"{room} must not import {name}"


@pytest.mark.parametrize("room", STANDARD_LIBRARY_ONLY)
def test_the_core_is_standard_library_only(room: str) -> None:
    for path in (p for p in FILES if room_of(p) == room):
        for name in imports_of(path):
            top = name.split(".")[0]
            assert top == "anaphora" or top in sys.stdlib_module_names, f"{path.name} imports {name}"
            assert top not in NOT_IN_THE_CORE, f"{path.name}: no clock, environment, socket or log in the core ({name})"


def test_the_server_sees_the_engine_by_its_public_names_only() -> None:
    for path in (p for p in FILES if room_of(p) == "server"):
        for name in imports_of(path):
            assert not name.startswith("anaphora.engine."), f"{path.name}: {name}"


@pytest.mark.parametrize("room", PLAIN_ROOMS)
def test_a_plain_room_does_not_load_torch(room: str) -> None:
    modules = [
        ".".join(("anaphora", *p.relative_to(SRC).with_suffix("").parts)).removesuffix(".__init__")
        for p in FILES
        if room_of(p) == room
    ]
    code = f"import sys; [__import__(m) for m in {modules!r}]; assert 'torch' not in sys.modules, 'torch was loaded'"
    subprocess.run([sys.executable, "-c", code], check=True)
