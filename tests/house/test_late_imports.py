"""A module of ours is imported inside a function only where something heavy follows from it.

Everybody pays for a top-level import, nobody finds a late one: so numpy, scipy, torch, SQLAlchemy, DuckDB and
NVML's bindings may be put off, and so may anything on the start path of plain pytest runs; all else stands at
the top. What a module loads is told from its text: the transitive closure of its top-level imports.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.house.test_arrows import PACKAGE, ROOT, module_at, modules

HEAVY = {"numpy", "scipy", "torch", "sqlalchemy", "duckdb", "pynvml"}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def lazy_homes(package: str) -> dict[str, str]:
    """Return where a package finds the names that it loads when they are first used."""
    path = module_at(package)
    for node in ast.parse(path.read_text(encoding="utf-8")).body if path else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOME":
            homes: dict[str, str] = ast.literal_eval(node.value)
            return homes
    return {}


def loads(node: ast.Import | ast.ImportFrom) -> set[str]:
    """Return the modules that an import statement loads."""
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names}
    module = node.module or ""
    homes = lazy_homes(module) if module.startswith("pytest_anubis") else {}
    found = {module}
    for alias in node.names:
        if alias.name in homes:
            found.add(f"{module}.{homes[alias.name]}")
        elif module_at(f"{module}.{alias.name}") is not None:
            found.add(f"{module}.{alias.name}")
    return found


@cache
def statements(path: Path) -> tuple[tuple[ast.stmt, bool], ...]:
    """Return a file's imports, each with whether it stands inside a function; those for types left out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only: set[ast.AST] = set()
    inside: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            typing_only.update(ast.walk(node))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            inside.update(ast.walk(node))
    return tuple(
        (node, node in inside)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom) and node not in typing_only
    )


@cache
def closure(name: str) -> frozenset[str]:
    """Return every module that is loaded when a module is imported, itself included."""
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        here = waiting.pop()
        path = module_at(here) if here.startswith("pytest_anubis") else None
        if here in seen:
            continue
        seen.add(here)
        if path is not None:
            parts = here.split(".")
            waiting += [".".join(parts[:end]) for end in range(1, len(parts))]
            for node, late in statements(path):
                if not late:
                    assert isinstance(node, ast.Import | ast.ImportFrom)
                    waiting += loads(node)
    return frozenset(seen)


@cache
def heavy(name: str) -> set[str]:
    return {module.partition(".")[0] for module in closure(name)} & HEAVY


def test_the_closure_is_what_imports_load() -> None:
    assert heavy("pytest_anubis.plugin") == set()
    assert heavy("pytest_anubis.store.history.database") == {"sqlalchemy"}
    assert "numpy" in heavy("pytest_anubis.store.collected_runs")
    lazy = ast.parse("from pytest_anubis.validator import learn_baseline").body[0]
    assert isinstance(lazy, ast.ImportFrom)
    assert any("numpy" in heavy(name) for name in loads(lazy))


def test_only_what_is_heavy_is_imported_late() -> None:
    start_path = closure("pytest_anubis.plugin")
    wrong = []
    for path in modules():
        place = path.relative_to(PACKAGE).as_posix()
        if name_of(path) in start_path:
            continue
        has = heavy(name_of(path))
        for node, late in statements(path):
            assert isinstance(node, ast.Import | ast.ImportFrom)
            names = loads(node)
            ours = any(name.startswith("pytest_anubis") for name in names)
            if late and ours and not set().union(*map(heavy, names)) - has:
                wrong.append(f"{place}:{node.lineno}: {ast.unparse(node)}")
    assert not wrong, "\n".join(wrong)
