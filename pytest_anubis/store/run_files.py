"""Find the files of runs, journals, imports and tables, among paths and below folders.

Files there that look like results and are not read with their folder are returned with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_anubis.codec.regular_files import open_regular
from pytest_anubis.store.journal.journal_reading import JOURNAL_NAME
from pytest_anubis.store.samples.columnar_files import SUFFIX

PARQUET = (".parquet", ".pq")
TABLES = (".csv", ".tsv", *PARQUET)
_PACKED = re.compile(
    r".*\.(?:zip|7z|rar|tar|tgz|tbz2?|txz|tzst)|\.?(.*\.(?:npz|jsonl|csv|tsv|parquet|pq|tar))"
    r"(?:~|\.(?:gz|bz2|xz|zst|lz4|z|part|partial|tmp|bak|old|orig|[0-9]+))+"
    r"|\.(.*\.(?:npz|csv|tsv|parquet|pq))\.[a-z0-9]{6}"  # rsync's name of a copy under way
)
"""Archives, and results that are packed or copies under way or of old; the groups are the result's name."""
_NO_RESULTS = re.compile(r"nodes\.csv|missing.*\.csv|.*-[0-9a-f]{8}\.parquet")
"""Tables that are no results: the register of nodes, lists of missing values, and exported samples."""


class RunsError(ValueError):
    """There is nothing to read; the message is one line for people."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file in a named folder that looks like results and is not read with the folder."""

    path: Path
    why: str  # why it is not read, and what to do, for people
    table: bool = False  # it is a table, which has to be named by itself

    @property
    def line(self) -> str:
        """Path and reason as one line."""
        return f"{self.path}: {self.why}"


def files_of(paths: Iterable[Path], *, exports: bool = False) -> tuple[list[Path], list[LeftOut]]:
    """Return the files of runs among paths and below folders, and the files there that are left out.

    With `exports`, the Parquet files of a folder without any run are taken for exported samples.

    Raises:
        RunsError: A path does not exist.
    """
    files: dict[Path, Path] = {}  # by the real path, so each once
    left: list[LeftOut] = []
    for path in paths:
        if path.is_dir():
            found = sorted(_below(path, left))
            if exports and not found:  # next to runs, a table may be derived from them
                found = sorted(one for one in path.iterdir() if one.suffix in PARQUET)
        elif path.exists():
            found = [path]
        else:
            raise RunsError(f"{path}: no such file or folder")
        for file in found:
            files.setdefault(_real(file), file)
    by_path = {one.path: one for one in left if files or not one.table}
    kept = (one for _, one in sorted(by_path.items()) if _real(one.path) not in files)
    # An exported table has less than the run that it was made from: of two of one run, the first counts.
    return sorted(files.values(), key=lambda file: file.suffix in PARQUET), list(kept)


def _below(folder: Path, left: list[LeftOut]) -> Iterator[Path]:
    """Yield the runs below a folder, also linked ones, and folders of runs that lack a journal."""

    def unreadable(error: OSError) -> None:
        why = f"cannot be read ({error.strerror}); make it readable, or name the other folders"
        left.append(LeftOut(Path(error.filename), why))

    seen = set()
    for name, folders, files in os.walk(folder, followlinks=True, onerror=unreadable):
        place = Path(name)
        real = _real(place)
        if real in seen:  # a circle of links
            folders.clear()
            continue
        if (
            "pyvenv.cfg" in files
        ):  # it may be a project's own folder, with runs next to the libraries
            folders[:] = [one for one in folders if one.casefold() not in ("lib", "lib64")]
        seen.add(real)
        lost = JOURNAL_NAME not in files and (
            place.parent.name == "runs" or any(_is_near(file) for file in files)
        )
        if lost:
            yield place  # a run whose journal is deleted, packed or renamed
        for file in files:
            path = place / file
            if path.is_symlink() and not path.exists():
                left += [one] if (one := _left_out(path)) else []
            elif file == JOURNAL_NAME or file.casefold().endswith(SUFFIX):
                yield path
            elif not (lost and _is_near(file)) and (one := _left_out(path)) is not None:
                left.append(one)


def _real(path: Path) -> Path:
    """Return the path without links; one that leads to itself stays as it is."""
    return Path(os.path.realpath(path))


def _is_near(name: str) -> bool:
    """Return whether a name is a journal's but for its case or ending, or the dot of a copy under way."""
    return name.casefold().removeprefix(".").startswith(JOURNAL_NAME)


def _left_out(path: Path) -> LeftOut | None:
    """Return the entry about a file that is not read with its folder; None if it is no result."""
    name = path.name.casefold()
    if path.is_symlink() and not path.exists():
        return LeftOut(path, "links to what is not there; bring that here, or remove the link")
    if name.endswith(".jsonl"):
        why = f"not read, since it is not called {JOURNAL_NAME}; name it next to the folder, or move it"
        return LeftOut(path, why)
    packed = None if _is_near(name) else _PACKED.fullmatch(name)
    if packed is not None and not _NO_RESULTS.fullmatch(packed[1] or packed[2] or ""):
        return LeftOut(
            path, "not read, since it is packed or a copy; unpack or complete it, or move it"
        )
    if name.endswith(TABLES) and not _NO_RESULTS.fullmatch(name):
        why = "a table is not read with a folder of runs; name it next to the folder, or move it"
        return LeftOut(path, why, table=True)
    return None


def is_superbench(path: Path) -> bool:
    """Return whether a file is a SuperBench summary and no journal, by the beginning of its first line."""
    if path.suffix != ".jsonl" or path.name == JOURNAL_NAME:
        return False
    try:
        with open_regular(path) as lines:
            return b'"node"' in (head := lines.read(4096)) and b'"event"' not in head
    except OSError:
        return False
