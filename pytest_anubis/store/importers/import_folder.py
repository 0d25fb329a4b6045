"""Save what `anubis import` read in the store's folder of imports, as columnar files, each file once.

A file that is imported again replaces its first import, unless its runs are of another time. A copy of
another file is refused, and values that an earlier import of the same run has are counted, without keeping
values. `import_command` and `collected_runs` use it.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from pathlib import Path

from pytest_anubis.core.gather import Key, key_of
from pytest_anubis.core.run import RunRecord
from pytest_anubis.core.sample import Population
from pytest_anubis.store.importers.dated_runs import RunNode, dated_names, with_names
from pytest_anubis.store.importers.import_result import (
    IMPORTS_FOLDER,
    DoubleImportError,
    Imported,
)
from pytest_anubis.store.samples.columnar_files import (
    SUFFIX,
    Columns,
    Origin,
    origin_of,
    runs_in,
    save_columns,
)

_UNREADABLE = ".unreadable"
"""Part of the names of imports of files that could not be read."""


class ImportFolder:
    """The imports of a store as they were when this was made, and those saved since.

    Attributes:
        lost: Nodes with a run in the file that was replaced last and without one in its successor.
        twice: (run, node) -> number of values in the latest import that an earlier one saved here has too.
        dated: (run, node) -> another id in the latest import, since a run of another time keeps its id.
    """

    def __init__(self, store: Path) -> None:
        self._folder = store / IMPORTS_FOLDER
        self.lost: tuple[str, ...] = ()
        self.twice: Mapping[tuple[str, str], int] = {}
        self.dated: Mapping[RunNode, str] = {}
        self._cells = ImportedCells()
        self._runs: set[RunNode] = set()
        self._kept: set[Path] = set()
        self._origins: dict[Path, Origin] = {}
        for file in sorted(self._folder.glob(f"*{SUFFIX}")):
            if (origin := origin_of(file)) is not None:
                self._origins[file] = origin

    def save(self, imported: Imported, name: str = "", *, unreadable: bool = False) -> Path:
        """Save an import as ``imports/<file name>.npz``.

        A repeated import of a file replaces the first, unless its nodes or runs are all different or began at
        another time. Then, as for another file of the same name, a part of the digest is added to the name.

        Args:
            imported: What was read.
            name: Name of the import; empty: the file's.
            unreadable: The file could not be read: it replaces nothing, and its next import replaces it.

        Raises:
            DoubleImportError: The same content, runs, nodes and dates are there from another file.
            ColumnsError: The disk refuses.
        """
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", name or imported.source.name).strip(".-")
        kind = _UNREADABLE if unreadable else ""
        path = self._folder / f"{name or 'import'}{kind}{SUFFIX}"
        origin = _origin(imported)
        self.dated, superseded = {}, set[Path]()
        if origin is not None:
            mine = {
                file: runs_in(file) for file, of in self._origins.items() if of.path == origin.path
            }
            nodes = {run.node for run in imported.runs}
            for file in [file for file in mine if _UNREADABLE in file.name]:
                if {run.node for run in mine.pop(file)} <= nodes:
                    superseded.add(file)
            earlier = {} if unreadable else mine
            same = [file for file in earlier if self._origins[file].sha256 == origin.sha256][:1]
            others = (run for file, runs in earlier.items() if file not in same for run in runs)
            known = {(run.run, run.node): run for run in others}
            self.dated = dated_names(imported.runs, known.get)
            populations, runs = with_names(imported.populations, imported.runs, self.dated)
            imported = replace(imported, populations=populations, runs=runs)
            if same:
                earlier = {same[0]: earlier[same[0]]}
            path = self._place(path, origin, _units_of(imported.runs), earlier, superseded)
        written = save_columns(
            Columns(populations=imported.populations, runs=imported.runs, origin=origin), path
        )
        if origin is not None:
            for file in superseded:
                del self._origins[file]
                if file != written:
                    file.unlink(missing_ok=True)
            self._origins[written] = origin
        self.twice = {}
        if written not in self._kept:  # else it replaces what it holds again
            units = _units_of(imported.runs)
            if common := units & self._runs:
                self.twice = self._cells.held_twice(imported.populations, common)
            self._cells.note(imported.populations, units)
            self._runs |= units
            self._kept.add(written)
        return written

    def _place(
        self,
        path: Path,
        origin: Origin,
        units: AbstractSet[RunNode],
        earlier: Mapping[Path, Sequence[RunRecord]],
        superseded: AbstractSet[Path],
    ) -> Path:
        """Return the path for an import with the preferred name `path`, given those of its file."""
        for twin, known in self._origins.items():
            if known.digest == origin.digest and known.path != origin.path:
                raise DoubleImportError(
                    f"{origin.path}: left out, a copy: content, run, nodes and date stand in {twin} already "
                    f"(from {known.path}) and would count twice; another run has another --run ID or --date"
                )
        self.lost = ()
        for mine, runs in earlier.items():
            before = _units_of(runs)
            if before & units or not before:  # a damaged import is replaced
                self.lost = tuple(sorted({node for _, node in before - units}))
                return mine
        if path in self._origins.keys() - superseded:
            return path.with_name(f"{path.name.removesuffix(SUFFIX)}-{origin.digest[:8]}{SUFFIX}")
        return path


def _units_of(runs: Iterable[RunRecord]) -> set[RunNode]:
    """Return run and node of each run."""
    return {(run.run, run.node) for run in runs}


def _origin(imported: Imported) -> Origin | None:
    """Return the identity of an imported file, with its runs, nodes and dates, since results may be equal."""
    path = imported.source
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
    except OSError:
        return None
    content = found.hexdigest()
    for run in sorted((run.run, run.node, run.started) for run in imported.runs):
        found.update("\0".join(("", *run)).encode("utf-8", "replace"))
    return Origin(digest=found.hexdigest(), path=str(path.resolve()), sha256=content)


class ImportedCells:
    """The names of all imported values: what was measured, on which device, in which run."""

    def __init__(self) -> None:
        self._names: list[tuple[Key, Sequence[str], Sequence[str], Sequence[str]]] = []
        self._runs = set[RunNode]()

    def note(self, populations: Iterable[Population], runs: Iterable[RunNode]) -> None:
        """Remember the names of a file's values, and its runs, which may have none."""
        self._runs.update(runs)
        self._names += [(key_of(one), one.runs, one.nodes, one.devices) for one in populations]

    def held_twice(
        self, populations: Iterable[Population], known: Collection[RunNode]
    ) -> Mapping[RunNode, int]:
        """Return run -> number of values in a file that an earlier file contained, without zeros.

        Args:
            populations: The file's samples.
            known: Runs that were read before. One that no import had is from a journal, so all values count.
        """
        held = set[tuple[Key, RunNode, str]]()
        for names in self._names:
            held.update(_cells(*names, known))
        found = Counter[RunNode]()
        for one in populations:
            for cell in _cells(key_of(one), one.runs, one.nodes, one.devices, known):
                if cell in held or cell[1] not in self._runs:
                    found[cell[1]] += 1
        return found


def _cells(
    key: Key,
    runs: Sequence[str],
    nodes: Sequence[str],
    devices: Sequence[str],
    known: Collection[RunNode],
) -> Iterator[tuple[Key, RunNode, str]]:
    for run, device in zip(zip(runs, nodes, strict=True), devices, strict=True):
        if run in known:
            yield key, run, device
