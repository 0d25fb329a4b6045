"""Finding the files of runs: journals and imports, by themselves or below folders."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME
from pytest_anubis.store.samples.columnar_files import SUFFIX

PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", *PARQUET)


class RunsError(ValueError):
    """There is nothing to read; the message is one line for people."""


def files_of(paths: Iterable[Path], *, exports: bool = False) -> Iterator[Path]:
    """Yield the files of runs that paths name: themselves, and what is below folders; each once.

    Args:
        paths: Files and folders.
        exports: Take the Parquet files of a folder without any run for what was exported there.

    Raises:
        RunsError: A path does not exist.
    """
    seen: set[Path] = set()
    for path in paths:
        if path.is_dir():
            found = sorted(_below(path))
            if exports and not found:  # beside runs, a table may be made of them
                found = sorted(one for one in path.iterdir() if one.suffix in PARQUET)
        elif path.exists():
            found = [path]
        else:
            raise RunsError(f"{path}: no such file or folder")
        for file in found:
            real = file.resolve()
            if real not in seen:
                seen.add(real)
                yield file


def _below(folder: Path) -> Iterator[Path]:
    """Return the runs below a folder, linked ones too, and what was a run's but cannot be read as one."""
    seen = set()
    for name, folders, files in os.walk(folder, followlinks=True):
        place = Path(name)
        real = place.resolve()
        if real in seen or "pyvenv.cfg" in files:  # a circle of links; libraries' own data
            folders.clear()
            continue
        seen.add(real)
        yield from (place / file for file in files if file.endswith(SUFFIX))
        if JOURNAL_NAME in files:
            yield place / JOURNAL_NAME
        elif place.parent.name == "runs" or any(
            file.casefold().startswith(JOURNAL_NAME) for file in files
        ):
            yield place  # of a run, but its journal is gone, packed or renamed


def is_superbench(path: Path) -> bool:
    """Tell a SuperBench summary from a journal, whatever its name, by how its first line begins."""
    if path.suffix != ".jsonl" or path.name == JOURNAL_NAME:
        return False
    try:
        with open_regular(path) as lines:
            return b'"node"' in (head := lines.read(4096)) and b'"event"' not in head
    except OSError:
        return False
