"""The shelves of `benchmarks/`: small, every script found by its path alone, and what texts name is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.places import ROOT

A_DOZEN = 12
SHELVES = ROOT / "benchmarks"
GUARD = '\nif __name__ == "__main__":\n'
FOUND_BY = re.compile(r"^sys\.path.*$", re.MULTILINE)
NAMED = re.compile(r"(python )?(?<![\w/.-])(benchmarks(?:/\w+)+(?:\.\w+)?)")
AS_A_MODULE = re.compile(r"-m benchmarks\.[\w.]+")


def modules() -> list[Path]:
    return sorted(SHELVES.rglob("*.py"))


def scripts() -> Iterator[str]:
    """Return what a user types after ``python``: files, and folders that are one script of many files."""
    for path in modules():
        if path.name == "__main__.py":
            yield path.parent.relative_to(ROOT).as_posix()
        elif (
            GUARD in path.read_text(encoding="utf-8") and not path.with_name("__main__.py").exists()
        ):
            yield path.relative_to(ROOT).as_posix()


def texts() -> Iterator[tuple[str, str]]:
    """Return what people read: pages, docstrings, comments; the changelog tells what was."""
    yield "README.md", (ROOT / "README.md").read_text(encoding="utf-8")
    for folder, kinds in (
        ("docs", ("*.md",)),
        *((name, ("*.py", "*.md", "*.toml")) for name in ("benchmarks", "pytest_anubis", "suites")),
        ("tests", ("*.py",)),
    ):
        for kind in kinds:
            for path in sorted((ROOT / folder).rglob(kind)):
                yield path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")


def test_no_shelf_is_too_full_and_none_is_the_floor() -> None:
    folders = {path.parent for path in modules()}
    counts = {
        folder: sum(path.name != "__init__.py" for path in folder.glob("*.py"))
        for folder in folders
    }
    assert counts.pop(SHELVES) == 0, "every script has a shelf"
    full = {str(folder): count for folder, count in counts.items() if count > A_DOZEN}
    assert not full, full
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_every_script_finds_the_packages_of_its_checkout_in_the_same_way() -> None:
    wrong = []
    for path in modules():
        text = path.read_text(encoding="utf-8")
        depth = len(path.relative_to(ROOT).parts) - 1
        line = f"sys.path.insert(0, str(Path(__file__).resolve().parents[{depth}]))"
        expected = [f"{line}  # this checkout's packages"] if GUARD in text else []
        if FOUND_BY.findall(text) != expected:
            wrong.append(f"{path.relative_to(ROOT)}: {expected or 'nobody runs it'}")
    assert not wrong, "\n".join(wrong)


def test_no_module_hides_one_of_the_standard_library() -> None:
    # The folder of a script is on the path of what it imports.
    names = {path.stem for path in modules()} - {"__init__", "__main__"}
    assert not names & sys.stdlib_module_names


def test_what_texts_name_is_there_and_is_typed_in_one_way() -> None:
    dead = []
    for name, text in texts():
        dead += [f"{name}: {said}" for said in AS_A_MODULE.findall(text)]
        for typed, said in NAMED.findall(text):
            path = ROOT / said
            runs = path.is_file() or (path / "__main__.py").is_file()
            if not (runs if typed else path.exists()):
                dead.append(f"{name}: {typed}{said}")
    assert not dead, "\n".join(dead)


def test_the_list_of_scripts_is_whole() -> None:
    listed = re.findall(
        r"^\| `(benchmarks/[\w/.]+)",
        (SHELVES / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    assert sorted(listed) == sorted(scripts())
