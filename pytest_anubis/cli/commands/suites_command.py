"""``anubis suites``: copy the benchmark set of this package, to run and change it."""

from __future__ import annotations

import argparse
import shlex
import shutil
import tempfile
from pathlib import Path

import pytest_anubis
from pytest_anubis.cli.shared.arguments import add_json, explain
from pytest_anubis.cli.shared.command_error import CommandError
from pytest_anubis.cli.shared.printing import answer
from pytest_anubis.report.text.numbers import count_text

NAME = "suites"
"""The folder's own name is part of the benchmarks' ids and of what they import, so a copy keeps it."""

SHIPPED = "shipped"
"""Folder of the package with the set. It is no package itself: the set is imported as ``suites`` from there
as from a copy."""

_WITNESS = Path("compute", "test_gemm.py")
"""A file that only the benchmark set has."""


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    explain(
        parser,
        "Copy the benchmark set that came with this package to DIR/suites, where it can be run, read and "
        "changed. Nothing that is there already is overwritten.",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the folder suites is to be (default: here)",
    )
    add_json(parser, "where it is, and how many files of benchmarks")


def run(options: argparse.Namespace) -> int:
    """Copy the set, and print what to type next."""
    origin = source(Path(pytest_anubis.__file__).parent)
    target = options.folder / NAME
    if target.exists():
        raise CommandError(f"{target} exists already; name another folder, or move it away")
    try:
        options.folder.mkdir(parents=True, exist_ok=True)
        # All of it or nothing: half a set would block the next try.
        with tempfile.TemporaryDirectory(dir=options.folder, prefix=f".{NAME}-") as scratch:
            whole = Path(scratch, NAME)
            shutil.copytree(origin, whole, ignore=shutil.ignore_patterns("__pycache__"))
            whole.rename(target)
    except OSError as error:
        raise CommandError(f"{target}: cannot be written ({_reason(error)})") from error
    files = sum(1 for _ in target.rglob("test_*.py"))
    typed = shlex.quote(str(target))
    answer(
        options.json,
        {"folder": str(target), "files": files},
        f"copied: {count_text(files, 'file')} of benchmarks to {target}",
        f"next: anubis learn {typed}, then pytest --anubis {typed}",
    )
    return 0


def _reason(error: OSError) -> str:
    """Return why a copy failed; for a folder `shutil` lists (from, to, reason) of every file."""
    several = error.args[0] if isinstance(error, shutil.Error) and error.args else None
    return str(several[0][-1] if isinstance(several, list) and several else error)


def source(package: Path) -> Path:
    """Return the folder of the benchmark set in the package; in a clone it is a link."""
    place = package / SHIPPED / NAME
    if not (place / _WITNESS).is_file():
        raise CommandError(
            f"{place}: the benchmark set is missing from this installation; install pytest-anubis again"
        )
    return place
