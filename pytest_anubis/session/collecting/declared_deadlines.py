"""Whether test files declare deadlines: told from their text, since workers start before collection."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

_COST = re.compile(rb"\bcost\s*=")
_TIMEOUT = re.compile(rb"\bmark\s*\.\s*timeout\s*\(")


def declares_deadlines(config: pytest.Config) -> bool:
    """Return whether a test file that this run names has benchmarks with a cost, or a timeout mark.

    Only the text is looked at. What it gets wrong is harmless: a worker that nobody needed costs a
    millisecond or two a test, and a mark that is made in another way than by its name leaves the test
    in pytest's own process, as it is without a deadline.

    Args:
        config: Its `args` say where the tests are; files that cannot be read declare nothing.
    """
    names = config.getini("python_files")
    shunned = [
        *config.getini("norecursedirs"),
        *(f"*/{path.strip('/')}" for path in config.getoption("ignore", None) or ()),
        *(config.getoption("ignore_glob", None) or ()),
    ]
    base = config.invocation_params.dir
    return any(
        _declares(path)
        for argument in config.args
        for path in _files(base / argument.partition("::")[0], names, shunned)
    )


def _files(place: Path, names: Sequence[str], shunned: Sequence[str]) -> Iterator[Path]:
    """Yield the test files that pytest would find in a folder, or the file itself."""
    if _is_file(place):
        yield place
        return
    seen = set()
    for folder, folders, files in os.walk(place, followlinks=True):
        own = os.path.realpath(folder)
        if own in seen:  # links in a circle
            folders.clear()
            continue
        seen.add(own)
        folders[:] = sorted(
            name
            for name in folders
            if not _matches(Path(folder, name), shunned)
            and not _is_file(Path(folder, name, "pyvenv.cfg"))
        )
        for name in sorted(files):
            if _matches(Path(folder, name), names):
                yield Path(folder, name)


def _matches(path: Path, patterns: Sequence[str]) -> bool:
    """Match as pytest does: the name, or the whole path where the pattern has a slash."""
    return any(
        fnmatch.fnmatch(str(path), pattern if pattern.startswith(("/", "*")) else f"*/{pattern}")
        if "/" in pattern
        else fnmatch.fnmatch(path.name, pattern)
        for pattern in patterns
    )


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # in a folder that cannot be read; pytest will tell of it
        return False


def _declares(path: Path) -> bool:
    try:
        text = path.read_bytes()
    except OSError:
        return False
    return (b"mark.anubis" in text and _COST.search(text) is not None) or bool(
        _TIMEOUT.search(text)
    )
