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
    shunned = config.getini("norecursedirs")
    base = config.invocation_params.dir
    return any(
        _declares(path)
        for argument in config.args
        for path in _files(base / argument.partition("::")[0], names, shunned)
    )


def _files(place: Path, names: Sequence[str], shunned: Sequence[str]) -> Iterator[Path]:
    """Yield the test files that pytest would find in a folder, or the file itself."""
    if place.is_file():
        yield place
        return
    for folder, folders, files in os.walk(place):
        folders[:] = sorted(
            name
            for name in folders
            if not any(fnmatch.fnmatch(name, pattern) for pattern in shunned)
            and not Path(folder, name, "pyvenv.cfg").exists()
        )
        for name in sorted(files):
            if any(fnmatch.fnmatch(name, pattern) for pattern in names):
                yield Path(folder, name)


def _declares(path: Path) -> bool:
    try:
        text = path.read_bytes()
    except OSError:
        return False
    return (b"mark.anubis" in text and _COST.search(text) is not None) or bool(
        _TIMEOUT.search(text)
    )
