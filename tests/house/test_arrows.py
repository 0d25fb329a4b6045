"""The house rules that a reader relies on: who may import whom, what is pure, what stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_anubis

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "pytest_anubis"

# Room -> rooms that it may import. Modules at the top level are rooms of their own.
MAY_IMPORT = {
    "core": set(),
    "wire": set(),
    "hush": set(),
    "options": set(),
    "settings": {"options"},
    "hookspecs": {"core"},
    "validator": {"core"},
    "selector": {"core"},
    "store": {"core", "wire"},
    "report": {"core", "wire"},
    "hardware": {"core", "wire"},
    "session": {
        "core", "validator", "selector", "store", "hardware", "report", "wire", "settings",
        "hush", "distributed",
    },
    "distributed": {
        "core", "validator", "selector", "store", "hardware", "report", "wire", "settings", "session",
    },
    "cli": {
        "core", "validator", "selector", "store", "hardware", "report", "wire", "settings",
        "hush", "distributed",
    },
    "plugin": {"session", "distributed", "report", "settings", "hookspecs"},
}  # fmt: skip
PURE = ("core", "validator", "selector", "distributed/dispatch.py")
IMPURE_MODULES = {
    "pytest", "os", "io", "pathlib", "time", "datetime", "random", "subprocess", "socket", "pynvml",
    "sqlalchemy", "xdist", "execnet", "threading", "tempfile", "shutil", "logging",
}  # fmt: skip


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Return the full names of all modules that a file imports anywhere, late imports included."""
    names: set[str] = set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        node
        for branch in ast.walk(tree)
        if isinstance(branch, ast.If) and ast.unparse(branch.test) == "TYPE_CHECKING"
        for node in ast.walk(branch)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; write the full name"
            module = node.module or ""
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_follow_the_arrows(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        return
    reached = {
        name.split(".")[1] for name in imports(path) if name.startswith("pytest_anubis.")
    } - {room, "__version__"}
    assert reached <= MAY_IMPORT[room], f"{room} may not import {reached - MAY_IMPORT[room]}"


def pure_files() -> list[Path]:
    found: list[Path] = []
    for name in PURE:
        place = PACKAGE / name
        found += sorted(place.rglob("*.py")) if place.is_dir() else [place] * place.exists()
    return found


@pytest.mark.parametrize("path", pure_files(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_pure_rooms_touch_no_files_clocks_or_devices(path: Path) -> None:
    heads = {name.partition(".")[0] for name in imports(path)}
    assert not heads & IMPURE_MODULES
    assert "open(" not in path.read_text(encoding="utf-8").replace("_open(", "")


@pytest.mark.parametrize(
    "path", sorted((ROOT / "suites").rglob("*.py")), ids=lambda p: str(p.relative_to(ROOT))
)
def test_suites_use_the_public_api_only(path: Path) -> None:
    inner = {name for name in imports(path) if name.startswith("pytest_anubis.")}
    assert inner <= {f"pytest_anubis.{name}" for name in pytest_anubis.__all__}


def test_nothing_imports_pytests_inside() -> None:
    for path in modules():
        private = {n for n in imports(path) if n == "_pytest" or n.startswith("_pytest.")}
        assert not private, path


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, pytest_anubis.plugin; "
        "heavy = {'numpy','scipy','torch','pynvml','sqlalchemy','xdist','pytest_html','duckdb'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_no_file_needs_long_scrolling() -> None:
    long = {
        str(path.relative_to(ROOT)): count
        for path in modules()
        if (count := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long
